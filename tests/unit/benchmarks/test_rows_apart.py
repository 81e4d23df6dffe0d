"""The pieces of the rows for vectors and speech: texts, sound, and clients against a server."""

from __future__ import annotations

import wave
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from measuring.failure import MeasurementFailed
from measuring.server import Running
from rows import indexing, transcription
from rows.beside import Beside

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models import whisper
from tests.server.running import started
from tests.sounds import needs_speech, silence, voice
from tests.vectors import tiny


def running(port: int, model: str) -> Running:
    return Running(name="maxi-mlx", port=port, model=model, pid=1)


def test_texts_are_of_all_lengths_and_mixed() -> None:
    texts = indexing.make_texts(3, number=512)
    assert texts == indexing.make_texts(3, number=512)
    assert texts != indexing.make_texts(4, number=512)
    lengths = [len(text.split()) for text in texts]
    assert (min(lengths), len(lengths)) == (1, 512)
    assert 505 < max(lengths) <= 512
    assert lengths != sorted(lengths)
    assert 0.4 < sum(length <= 22 for length in lengths) / 512 < 0.6  # the root of 512


def test_gaps_beside_other_work() -> None:
    beside = Beside(times_s=[0.0, 1.0, 2.0, 3.5, 6.0, 7.0, 17.0], sent_s=4.0, ended_s=6.5)
    assert beside.median_gap_s == 1.0
    assert beside.longest_before_s == 1.5
    assert beside.longest_gap_s == 2.5


async def test_an_indexing_run(tmp_path: Path) -> None:
    tiny.build(tmp_path / "embedding", "qwen3")
    async with started() as start:
        port = (await start(Settings(), Root(tmp_path, "test", "folders"))).port
        texts = [f"text {index}" for index in range(40)]
        sent_s, ended_s = await indexing.index(running(port, ""), "embedding", texts)
        assert ended_s > sent_s
        with pytest.raises(MeasurementFailed, match="404"):
            await indexing.index(running(port, ""), "no-such-model", texts)


@pytest.fixture
async def speech(tmp_path: Path) -> Path:
    whisper.build_whisper(tmp_path / "whisper")
    return tmp_path


@needs_speech
async def test_a_transcription(speech: Path) -> None:
    async with started() as start:
        port = (await start(Settings(), Root(speech, "test", "folders"))).port
        server = running(port, "")
        file = transcription.wav(voice(2))
        sent_s, ended_s, text = await transcription.transcribe(server, "whisper", file)
        assert ended_s > sent_s
        assert text == whisper.TEXT
        with pytest.raises(MeasurementFailed, match="nothing"):
            await transcription.transcribe(server, "whisper", transcription.wav(silence(2)))


@needs_speech
def test_speech_is_as_long_as_asked_for() -> None:
    sound = transcription.speech(40.0)
    assert len(sound) == 40 * transcription.RATE
    with wave.open(BytesIO(transcription.wav(sound)), "rb") as reader:
        samples = np.frombuffer(reader.readframes(reader.getnframes()), "<i2")
    assert np.abs(samples / 32767 - sound).max() < 1e-4
