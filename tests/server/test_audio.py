"""Speech over HTTP: forms of every make, formats, streams, limits, clients that leave."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models import whisper
from tests.server.asking import is_idle, until
from tests.server.running import Answer, Client, Start
from tests.sounds import encoded, needs_speech, silence, voice, wav

# aiohttp warns of headers that it can't read.
pytestmark = [
    pytest.mark.filterwarnings("ignore::aiohttp.multipart.BadContentDispositionHeader"),
    pytest.mark.filterwarnings("ignore::aiohttp.multipart.BadContentDispositionParam"),
]

PATH = "/v1/audio/transcriptions"
TRANSLATIONS = "/v1/audio/translations"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Root:
    pytest.importorskip("mlx_whisper", reason="its vocabulary makes the model")
    folder = tmp_path_factory.mktemp("speech")
    whisper.build_whisper(folder / "whisper")
    return Root(folder, "test", "folders")


@pytest.fixture
async def client(start: Start, models: Root) -> Client:
    return await start(Settings(), models)


def form(
    sound: bytes, /, *fields: tuple[str, str], name: str = "a.wav", is_first: bool = False
) -> aiohttp.FormData:
    data = aiohttp.FormData()
    if is_first:
        data.add_field("file", io.BytesIO(sound), filename=name)
    for field, value in fields:
        data.add_field(field, value)
    if not is_first:
        data.add_field("file", io.BytesIO(sound), filename=name)
    return data


async def ask(client: Client, sound: bytes, /, *fields: tuple[str, str], **more: Any) -> Answer:
    return await client.post(PATH, data=form(sound, *fields, **more))


@pytest.mark.clients(92)
@pytest.mark.slow
@needs_speech
@pytest.mark.parametrize("is_first", [True, False], ids=["file first", "file last"])
@pytest.mark.parametrize("name", ["a.wav", "a.mp3", "x", "../../etc/passwd", "ä\"'.txt"])
async def test_the_content_decides_not_the_name(client: Client, name: str, is_first: bool) -> None:
    fields = (("model", "whisper"), ("language", ""), ("no_such_field", "1"))
    answer = await ask(client, wav(voice(2)), *fields, name=name, is_first=is_first)
    assert answer.status == 200, answer.body
    assert answer.json == {"text": whisper.TEXT, "usage": {"type": "duration", "seconds": 2.0}}


@pytest.mark.clients(93)
@needs_speech
async def test_every_format(client: Client) -> None:
    sound = encoded(voice(3, rate=48_000), "webm", "libopus", rate=48_000)
    answers = {}
    for name in ("json", "text", "srt", "vtt", "verbose_json"):
        answers[name] = await ask(client, sound, ("response_format", name))
        assert answers[name].status == 200
    assert answers["text"].headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answers["text"].body.decode() == whisper.TEXT + "\n"
    assert answers["vtt"].headers["Content-Type"] == "text/vtt; charset=utf-8"
    assert answers["vtt"].body.startswith(b"WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nGuten Tag.")
    assert answers["srt"].body.startswith(b"1\n00:00:00,000 --> 00:00:01,500\nGuten Tag.\n\n2\n")
    verbose = answers["verbose_json"].json
    assert verbose["language"] == "german"
    assert [part["text"] for part in verbose["segments"]] == [" Guten Tag.", " Danke!"]


@needs_speech
@pytest.mark.parametrize(("name", "reader"), [("srt", "srt"), ("vtt", "webvtt")])
async def test_ffmpeg_reads_the_subtitles(client: Client, name: str, reader: str) -> None:
    import av

    answer = await ask(client, wav(voice(32)), ("response_format", name))
    with av.open(io.BytesIO(answer.body), format=reader) as subtitles:
        blocks = [packet for packet in subtitles.demux(subtitles.streams[0]) if packet.size]
        times = [float(packet.pts * packet.time_base) for packet in blocks]
    assert [bytes(packet) for packet in blocks] == [b"Guten Tag.", b"Danke!"] * 2
    assert times == pytest.approx([0.0, 1.6, 30.0, 31.6], abs=0.5)


@pytest.mark.clients(92, 93)
@needs_speech
async def test_words(client: Client) -> None:
    grains = [("timestamp_granularities[]", each) for each in ("word", "segment")]
    answer = await ask(client, wav(voice(3)), ("response_format", "verbose_json"), *grains)
    assert [word["word"] for word in answer.json["words"]] == ["Guten", "Tag.", "Danke!"]
    assert len(answer.json["segments"]) == 2


@pytest.mark.clients(93)
@needs_speech
async def test_a_stream(client: Client) -> None:
    answer = await ask(client, wav(voice(32)), ("stream", "true"))
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    frames = [f for f in answer.body.decode().split("\n\n") if f and not f.startswith(":")]
    assert frames[-1] == "data: [DONE]"
    events = [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]
    assert [event["type"] for event in events] == [
        *["transcript.text.delta"] * 4,
        "transcript.text.done",
    ]
    text = f"{whisper.TEXT} {whisper.TEXT}"
    assert "".join(event["delta"] for event in events[:-1]) == events[-1]["text"] == text
    assert events[-1]["usage"] == {"type": "duration", "seconds": 32.0}


@pytest.mark.clients(94)
@needs_speech
async def test_a_translation(client: Client) -> None:
    answer = await client.post(TRANSLATIONS, data=form(wav(voice(2)), ("model", "whisper")))
    assert answer.json["text"] == whisper.TRANSLATION


@needs_speech
async def test_silence_has_no_text(client: Client) -> None:
    assert (await ask(client, wav(silence(30)))).json["text"] == ""
    answer = await ask(client, wav(silence(5)), ("response_format", "vtt"))
    assert answer.body == b"WEBVTT\n"


NO_SOUND = {
    "empty": b"",
    "text": b"no sound",
    "one sample": wav(np.ones(1, np.float32)),
    "cut": wav(voice(1))[:50],
}


@needs_speech
@pytest.mark.parametrize("name", NO_SOUND)
async def test_what_is_no_recording_is_a_400(client: Client, name: str) -> None:
    answer = await ask(client, NO_SOUND[name])
    assert answer.status == 400
    assert answer.error["param"] == "file"


async def test_a_body_that_is_no_form(client: Client) -> None:
    answer = await client.post(PATH, json={"model": "whisper"})
    assert answer.status == 415
    assert "multipart/form-data" in answer.error["message"]
    answer = await client.post(PATH, data=form(b"x", ("temperature", "hot")))
    assert (answer.status, answer.error["param"]) == (400, "temperature")
    data = aiohttp.FormData({"model": "whisper"})
    data.add_field("audio", b"x", filename="a.wav")
    answer = await client.post(PATH, data=data)
    assert (answer.status, answer.error["param"]) == (400, "file")


BROKEN_FORMS = {
    "no boundary": ("multipart/form-data", b"--x\r\n\r\n--x--\r\n"),
    "another boundary": ("multipart/form-data; boundary=y", b"--x\r\n\r\nabc\r\n--x--\r\n"),
    "nothing": ("multipart/form-data; boundary=x", b""),
    "no end": ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="'),
    "a boundary too long": ("multipart/form-data; boundary=" + "x" * 500, b"--x--"),
    "a form in a form": (
        "multipart/form-data; boundary=x",
        b"--x\r\nContent-Type: multipart/mixed; boundary=y\r\n\r\n--y--\r\n\r\n--x--\r\n",
    ),
    "bytes that are no text": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n\xff\xfe\r\n--x--\r\n',
    ),
    "a text of megabytes": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n'
        + b"a" * 200_000
        + b"\r\n--x--\r\n",
    ),
    "two files": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\na\r\n' * 2
        + b"--x--\r\n",
    ),
}


@pytest.mark.parametrize("name", BROKEN_FORMS)
async def test_a_broken_form_is_a_400(client: Client, name: str) -> None:
    content_type, body = BROKEN_FORMS[name]
    answer = await client.post(PATH, data=body, headers={"Content-Type": content_type})
    assert answer.status == 400, answer.body
    assert answer.error["message"]


async def test_damaged_forms_are_never_a_500(client: Client) -> None:
    whole = (
        b'--x\r\nContent-Disposition: form-data; name="temperature"\r\n\r\nhot\r\n'
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc\r\n--x--\r\n'
    )
    generator = np.random.default_rng(5)
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for _ in range(120):
        body = bytearray(whole)
        place = int(generator.integers(0, len(body)))
        body[place : place + int(generator.integers(1, 6))] = generator.bytes(3)
        answer = await client.post(PATH, data=bytes(body), headers=headers)
        assert answer.status in (400, 404, 501), answer.body


async def test_a_file_beyond_the_limit_is_a_413(start: Start, models: Root) -> None:
    client = await start(Settings(max_audio_bytes=3_000_000), models)
    answer = await ask(client, b"a" * 3_000_001)
    assert answer.status == 413
    assert "--max-audio-size" in answer.error["message"]
    answer = await ask(client, b"a" * 5_000_000)
    assert answer.status == 413


@needs_speech
async def test_a_file_beyond_the_small_size_goes_to_disk_and_is_read(client: Client) -> None:
    sound = wav(voice(40))
    assert len(sound) > 1 << 20
    assert (await ask(client, sound)).json["text"] == f"{whisper.TEXT} {whisper.TEXT}"


@needs_speech
async def test_a_client_that_leaves_ends_the_work(client: Client) -> None:
    await ask(client, wav(voice(1)))
    asking = asyncio.create_task(ask(client, wav(voice(300)), ("stream", "true")))
    await until(lambda: not is_idle(client))
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: is_idle(client))


async def test_other_kinds_of_models_are_a_400(
    start: Start, models: Root, scripted_model: Path
) -> None:
    client = await start(Settings(), models, Root(scripted_model, "test", "folders"))
    answer = await ask(client, wav(voice(1)), ("model", "scripted"))
    assert answer.status == 400
    assert "/v1/chat/completions" in answer.error["message"]
    chat = {"model": "whisper", "messages": [{"role": "user", "content": "hello"}]}
    answer = await client.post("/v1/chat/completions", json=chat)
    assert answer.status == 400
    assert "/v1/audio/transcriptions" in answer.error["message"]


async def test_without_the_extra_the_answer_says_what_to_type(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maxi_mlx.engine.speech import loading

    monkeypatch.setattr(loading, "_MODULES", ("av", "no_such_module_for_speech"))
    answer = await ask(client, wav(voice(1)))
    assert answer.status == 501
    assert answer.error["code"] == "not_installed"
    assert "pip install" in answer.error["message"]
    assert "--no-deps 'mlx-whisper" in answer.error["message"]
    # torch is named by mlx-whisper's metadata alone.
    assert "torch" not in answer.error["message"]


@needs_speech
async def test_a_line_in_the_log_has_the_seconds(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    await ask(client, wav(voice(2)), ("model", "whisper"))
    await ask(client, b"no sound", ("model", "whisper"))
    heard, refused = (record.__dict__["fields"] for record in caplog.records)
    assert (heard["model"], heard["status"], heard["audio_s"]) == ("whisper", 200, 2.0)
    assert heard["reason"] == "stop"
    assert (refused["model"], refused["status"]) == ("whisper", 400)
