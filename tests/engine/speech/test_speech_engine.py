"""Whisper folders through the real engine: whole recordings, two at once, clients that leave."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxi_mlx.core.errors import InvalidRequest, ModelNotFound
from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Message
from maxi_mlx.core.settings import STRATEGIES, Settings
from maxi_mlx.core.transcription import (
    Segment,
    SegmentWritten,
    Transcribed,
    TranscriptionEvent,
    TranscriptionProgress,
    TranscriptionRequest,
    TranscriptionStarted,
)
from maxi_mlx.engine.engine import Engine
from tests.engine.conftest import make_engine
from tests.models import whisper
from tests.sounds import needs_speech, noise, silence, voice, wav

pytestmark = needs_speech

FOLDERS: dict[str, dict[str, Any]] = {
    "whisper": {},
    "whisper-hf": {"form": "Hugging Face"},
    "whisper-en": {"vocabulary": "english", "scripts": whisper.ENGLISH_SCRIPTS},
    "whisper-loop": {"vocabulary": "english", "scripts": whisper.LOOPING_SCRIPTS},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("whisper")
    return {name: whisper.build_whisper(root / name, **how) for name, how in FOLDERS.items()}


@pytest.fixture
async def speech(folders: dict[str, Path]) -> AsyncIterator[Engine]:
    async with make_engine(list(folders.values())) as engine:
        yield engine


def ask(samples: np.ndarray, model: str = "whisper", **more: Any) -> TranscriptionRequest:
    return TranscriptionRequest(id="t", model=model, file=io.BytesIO(wav(samples)), **more)


async def events_of(engine: Engine, request: TranscriptionRequest) -> list[TranscriptionEvent]:
    return [event async for event in engine.transcribe(request)]


async def segments_of(engine: Engine, request: TranscriptionRequest) -> list[Segment]:
    events = await events_of(engine, request)
    return [event.segment for event in events if isinstance(event, SegmentWritten)]


def text_of(segments: list[Segment]) -> str:
    return "".join(segment.text for segment in segments).strip()


async def until_idle(engine: Engine) -> None:
    async with asyncio.timeout(30):
        while any(model.num_running or model.num_waiting for model in _figures(engine)):
            await asyncio.sleep(0.01)


def _figures(engine: Engine) -> list[Any]:
    return list(engine._device.reading.models.values())


@pytest.mark.slow
@pytest.mark.parametrize("model", ["whisper", "whisper-hf"])
async def test_both_forms_of_a_folder_say_the_same(speech: Engine, model: str) -> None:
    events = await events_of(speech, ask(voice(5), model))
    assert events[0] == TranscriptionStarted(model, 5.0)
    end = events[-1]
    assert isinstance(end, Transcribed)
    assert (end.language, end.duration_s) == ("german", 5.0)
    segments = [event.segment for event in events if isinstance(event, SegmentWritten)]
    assert [(s.id, s.seek, s.text) for s in segments] == [(0, 0, " Guten Tag."), (1, 0, " Danke!")]
    times = [(round(s.start_s, 2), round(s.end_s, 2)) for s in segments]
    assert times == [(0.0, 1.5), (1.6, 3.6)]
    assert all(s.avg_logprob > -0.01 and s.no_speech_prob < 0.01 for s in segments)
    assert all(s.temperature == 0 for s in segments)


async def test_the_catalog_serves_whisper_alone_of_speech_models(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    from maxi_mlx.catalog.catalog import Catalog, Root

    entries = Catalog([Root(folder, "t", "folders") for folder in folders.values()]).entries()
    assert {(entry.kind, entry.problem) for entry in entries} == {("speech", None)}
    other = whisper.build_whisper(tmp_path / "m" / "moonshine-tiny")
    (other / "config.json").write_text(json.dumps({"model_type": "moonshine"}))
    [entry] = Catalog([Root(other.parent, "t", "folders")]).entries()
    assert entry.problem is not None
    assert "only Whisper" in entry.problem


async def test_each_window_has_its_times(speech: Engine) -> None:
    events = await events_of(speech, ask(voice(40)))
    segments = [event.segment for event in events if isinstance(event, SegmentWritten)]
    assert [s.seek for s in segments] == [0, 0, 3000, 3000]
    assert segments[2].start_s == pytest.approx(30)
    assert segments[3].end_s == pytest.approx(33.6)
    progress = [e.processed_s for e in events if isinstance(e, TranscriptionProgress)]
    assert progress == sorted(progress)
    assert progress[-1] == 40


async def test_silence_is_skipped_on_both_sides(speech: Engine) -> None:
    sound = np.concatenate([silence(40), voice(5), silence(40)])
    segments = await segments_of(speech, ask(sound))
    assert text_of(segments) == whisper.TEXT
    assert segments[0].start_s == pytest.approx(39.6, abs=0.5)


@pytest.mark.parametrize("sound", [silence(30), noise(30, loudness=0.05)], ids=["silence", "hiss"])
async def test_where_nobody_speaks_there_is_no_text(speech: Engine, sound: np.ndarray) -> None:
    events = await events_of(speech, ask(sound))
    assert [type(event) for event in events] == [TranscriptionStarted, Transcribed]
    assert isinstance(events[-1], Transcribed)
    assert events[-1].language is None


async def test_a_named_language_counts_and_is_checked(speech: Engine) -> None:
    for name in ("fr", "French", "fr-CA", " FRENCH "):
        events = await events_of(speech, ask(voice(2), language=name))
        assert isinstance(events[-1], Transcribed)
        assert events[-1].language == "french"
    for name in ("", "auto"):
        events = await events_of(speech, ask(voice(2), language=name))
        assert events[-1].language == "german"  # type: ignore[union-attr]


async def test_a_translation_is_english(speech: Engine) -> None:
    assert text_of(await segments_of(speech, ask(voice(3), task="translate"))) == (
        whisper.TRANSLATION
    )


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such language": ({"language": "klingon"}, "language"),
    "English alone": ({"model": "whisper-en", "language": "de"}, "language"),
    "no translation": ({"model": "whisper-en", "task": "translate"}, "model"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_a_model_cant_do_is_refused(speech: Engine, case: str) -> None:
    more, param = REFUSED[case]
    with pytest.raises(InvalidRequest) as caught:
        await events_of(speech, ask(voice(1), **more))
    assert caught.value.param == param


SHORT = {"one sample": np.ones(1, np.float32), "0.09 s": voice(0.09)}


@pytest.mark.parametrize("name", SHORT)
async def test_what_is_shorter_than_a_word_is_refused(speech: Engine, name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"at least 0\.1 s"):
        await events_of(speech, ask(SHORT[name]))


async def test_a_tenth_of_a_second_is_taken(speech: Engine) -> None:
    await events_of(speech, ask(voice(0.11)))


async def test_words_are_in_order_and_make_up_the_text(speech: Engine) -> None:
    plain = await segments_of(speech, ask(voice(35)))
    segments = await segments_of(speech, ask(voice(35), wants_words=True))
    assert [replace(segment, words=()) for segment in segments] == plain
    words = [word for segment in segments for word in segment.words]
    assert " ".join(word.text for word in words) == " ".join([whisper.TEXT] * 2)
    assert all(0 <= word.start_s <= word.end_s <= 35 for word in words)
    assert [word.start_s for word in words] == sorted(word.start_s for word in words)


async def test_a_loop_is_cut(speech: Engine) -> None:
    segments = await segments_of(speech, ask(voice(3), "whisper-loop"))
    assert text_of(segments) == "Well la"


async def test_a_prompt_and_keywords_of_any_length_are_taken(speech: Engine) -> None:
    for more in ({"prompt": "<|endoftext|> Herr Müller " * 300}, {"keywords": ("Xyz",) * 100}):
        segments = await segments_of(speech, ask(voice(35), **more))
        assert text_of(segments) == "Guten Tag. Danke! Guten Tag. Danke!"


async def test_whisper_1_means_a_model_that_is_there(
    speech: Engine, tiny_model: Callable[[str], Path]
) -> None:
    for name in ("whisper-1", "", "default"):
        events = await events_of(speech, ask(voice(1), name))
        assert isinstance(events[0], TranscriptionStarted)
        assert events[0].model in FOLDERS
    async with make_engine([tiny_model("llama")]) as engine:
        with pytest.raises(ModelNotFound, match="speech model"):
            await events_of(engine, ask(voice(1), "whisper-1"))
        with pytest.raises(InvalidRequest, match="chat/completions"):
            await events_of(engine, ask(voice(1), "tiny-llama"))


async def test_two_recordings_at_once_are_both_right(speech: Engine) -> None:
    texts = await asyncio.gather(*(segments_of(speech, ask(voice(40))) for _ in range(2)))
    assert {text_of(each) for each in texts} == {" ".join([whisper.TEXT] * 2)}


async def test_who_leaves_ends_the_work_within_a_window(speech: Engine) -> None:
    async with aclosing(speech.transcribe(ask(voice(150)))) as events:
        async for event in events:
            if isinstance(event, TranscriptionProgress):
                break
    await until_idle(speech)
    # Nothing of it was left on the device, and the next one is answered at once.
    assert text_of(await segments_of(speech, ask(voice(2)))) == whisper.TEXT


@pytest.mark.slow
async def test_who_leaves_while_the_file_is_decoded_is_not_waited_for(speech: Engine) -> None:
    await events_of(speech, ask(voice(1)))  # the model is there now
    task = asyncio.create_task(events_of(speech, ask(voice(1200))))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert speech.status().num_running + speech.status().num_waiting == 0


async def test_a_recording_that_lies_on_disk_is_the_same(
    speech: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maxi_mlx.engine.speech import recording

    sound = np.concatenate([silence(2), voice(31), silence(9), voice(3)])
    in_memory = await segments_of(speech, ask(sound))
    monkeypatch.setattr(recording, "_IN_MEMORY_BYTES", 1 << 16)
    assert await segments_of(speech, ask(sound)) == in_memory


async def test_chat_goes_on_while_a_recording_is_written_down(
    folders: dict[str, Path], tiny_model: Callable[[str], Path]
) -> None:
    settings = Settings(scheduler=STRATEGIES["latency"])
    async with make_engine([folders["whisper"], tiny_model("llama")], settings) as engine:
        chat = GenerateRequest(
            id="c",
            model="tiny-llama",
            prompts=(ChatPrompt(messages=(Message(role="user", text="hello"),)),),
            max_tokens=60,
        )
        for model in ("whisper", "tiny-llama"):
            await engine.load(model)
        listening = asyncio.create_task(events_of(engine, ask(voice(300))))
        events = [event async for event in engine.generate(chat)]
        assert not listening.done()
        assert len(events) > 10
        assert isinstance((await listening)[-1], Transcribed)


BROKEN: dict[str, Callable[[Path], None]] = {
    "no weights": lambda folder: (folder / "weights.safetensors").unlink(),
    "another size": lambda folder: _change(folder, n_text_layer=2),
    "another vocabulary": lambda folder: _change(folder, n_vocab=1000),
    "a shorter window": lambda folder: _change(folder, n_audio_ctx=750),
    "no number": lambda folder: _change(folder, n_audio_head="two"),
}


def _change(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN)
async def test_a_broken_folder_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    folder = whisper.build_whisper(tmp_path / "models" / "whisper")
    BROKEN[case](folder)
    async with make_engine([folder.parent]) as engine:
        with pytest.raises(InvalidRequest) as caught:
            await events_of(engine, ask(voice(1)))
        assert "whisper can't be" in caught.value.message
