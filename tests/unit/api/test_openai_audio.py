"""The speech endpoints' forms, their formats and their streams."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.api.openai.audio import AudioCall, parse_audio
from maxi_mlx.api.openai.audio_fields import TRANSCRIPTION_FIELDS, TRANSLATION_FIELDS
from maxi_mlx.api.openai.audio_writer import (
    SpokenText,
    TranscriptionAnswer,
    TranscriptionStreamWriter,
    content_type_of,
)
from maxi_mlx.core.errors import EngineFailed, InvalidRequest
from maxi_mlx.core.events import Failed
from maxi_mlx.core.transcription import (
    Segment,
    SegmentWritten,
    Task,
    Transcribed,
    TranscriptionEvent,
    TranscriptionProgress,
    TranscriptionStarted,
    Word,
)


def parse(*fields: tuple[str, str], task: Task = "transcribe") -> AudioCall:
    return parse_audio(fields, file=io.BytesIO(b"x"), task=task, request_id="r")


def test_a_form_with_a_file_alone() -> None:
    call = parse()
    assert (call.format, call.stream, call.has_segments, call.has_words) == (
        "json",
        False,
        True,
        False,
    )
    request = call.request
    assert (request.model, request.language, request.prompt) == ("", None, None)
    assert (request.temperature, request.keywords, request.wants_words) == (0.0, (), False)


HONOURED: dict[str, tuple[list[tuple[str, str]], dict[str, Any]]] = {
    "a model": ([("model", " whisper-1 ")], {"model": "whisper-1"}),
    "the last of two": ([("language", "de"), ("language", "fr")], {"language": "fr"}),
    "an empty language": ([("language", "")], {"language": None}),
    "a temperature": ([("temperature", "0.4")], {"temperature": 0.4}),
    "an empty temperature": ([("temperature", "")], {"temperature": 0.0}),
    "a prompt": ([("prompt", "Frau Müller")], {"prompt": "Frau Müller"}),
    "keywords": ([("keywords[]", "MLX"), ("keywords", "Metal")], {"keywords": ("MLX", "Metal")}),
    "hotwords": ([("hotwords", "MLX, Metal,")], {"keywords": ("MLX", "Metal")}),
    "one of languages": ([("languages[]", "de")], {"language": "de"}),
    "several languages": ([("languages[]", "de"), ("languages[]", "fr")], {"language": None}),
    "unknown fields": ([("vad_filter", "true"), ("x" * 90, "")], {"model": ""}),
}


@pytest.mark.parametrize("case", HONOURED)
def test_honoured(case: str) -> None:
    fields, expected = HONOURED[case]
    request = parse(*fields).request
    assert {name: getattr(request, name) for name in expected} == expected


REFUSED: dict[str, tuple[list[tuple[str, str]], str]] = {
    "an unknown format": ([("response_format", "docx")], "response_format"),
    "speakers": ([("response_format", "diarized_json")], "response_format"),
    "their names": ([("known_speaker_names[]", "Ann")], "known_speaker_names"),
    "no number": ([("temperature", "warm")], "temperature"),
    "NaN": ([("temperature", "nan")], "temperature"),
    "too warm": ([("temperature", "1.5")], "temperature"),
    "no flag": ([("stream", "maybe")], "stream"),
    "a streamed table": ([("stream", "true"), ("response_format", "srt")], "response_format"),
    "an unknown grain": ([("timestamp_granularities[]", "letter")], "timestamp_granularities"),
    "words in json": ([("timestamp_granularities[]", "word")], "timestamp_granularities"),
    "logprobs": ([("include[]", "logprobs")], "include"),
    "a novel": ([("prompt", "x" * 10_001)], "prompt"),
    "a dictionary": ([("keywords[]", "x")] * 101, "keywords"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    fields, param = REFUSED[case]
    with pytest.raises(InvalidRequest) as caught:
        parse(*fields)
    assert caught.value.param == param


def test_a_form_without_a_file_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_audio([], file=None, task="transcribe", request_id="r")
    assert caught.value.param == "file"


@pytest.mark.parametrize(
    ("asked", "segments", "words"),
    [((), True, False), (("word",), False, True), (("word", "segment"), True, True)],
)
def test_granularities(asked: tuple[str, ...], segments: bool, words: bool) -> None:
    fields = [("timestamp_granularities[]", each) for each in asked]
    call = parse(("response_format", "verbose_json"), *fields)
    assert (call.has_segments, call.has_words, call.request.wants_words) == (
        segments,
        words,
        words,
    )


def test_every_field_of_the_sdk_is_in_the_table() -> None:
    from openai.types.audio import transcription_create_params, translation_create_params

    own = {name.removesuffix("[]") for name in TRANSCRIPTION_FIELDS}
    theirs = transcription_create_params.TranscriptionCreateParamsBase.__annotations__
    assert set(theirs) <= own
    translated = translation_create_params.TranslationCreateParams.__annotations__
    assert set(translated) <= set(TRANSLATION_FIELDS)


# -- writing -------------------------------------------------------------------------------------


def segment(id: int, text: str, start_s: float, end_s: float, *words: Word) -> Segment:
    return Segment(
        id=id,
        seek=0,
        start_s=start_s,
        end_s=end_s,
        text=text,
        tokens=(50364, 7, 50414),
        temperature=0.0,
        avg_logprob=-0.25,
        compression_ratio=0.9,
        no_speech_prob=0.01,
        words=words,
    )


EVENTS: list[TranscriptionEvent] = [
    TranscriptionStarted("tiny", 3723.5),
    SegmentWritten(segment(0, " Hello <b> & co.", 0.0, 1.5, Word("Hello", 0.0, 0.5))),
    TranscriptionProgress(30.0, 3723.5),
    SegmentWritten(segment(1, " Who-->is it? ", 3661.25, 3662.0)),
    Transcribed("english", 3723.5, 2.0),
]
TEXT = "Hello <b> & co. Who-->is it?"


def whole(response_format: str, *, task: Task = "transcribe", **more: str) -> bytes:
    fields = [("response_format", response_format)]
    fields += [(f"{name}[]", value) for name, value in more.items()]
    call = parse(*fields, task=task)
    answer = TranscriptionAnswer(call, model="tiny")
    for event in EVENTS:
        answer.feed(event)
    return answer.body()


def test_json() -> None:
    usage = {"type": "duration", "seconds": 3723.5}
    assert json.loads(whole("json")) == {"text": TEXT, "usage": usage}


def test_text() -> None:
    assert whole("text").decode() == TEXT + "\n"


def test_srt() -> None:
    assert whole("srt").decode() == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello <b> & co.\n\n"
        "2\n01:01:01,250 --> 01:01:02,000\nWho->is it?\n"
    )


def test_vtt() -> None:
    assert whole("vtt").decode() == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello &lt;b&gt; &amp; co.\n\n"
        "01:01:01.250 --> 01:01:02.000\nWho-&gt;is it?\n"
    )


def test_verbose_json_is_the_sdks() -> None:
    from openai.types.audio import TranscriptionVerbose

    body = json.loads(whole("verbose_json"))
    answer = TranscriptionVerbose.model_validate(body)
    assert (answer.duration, answer.language, answer.text) == (3723.5, "english", TEXT)
    assert body["task"] == "transcribe"
    assert "words" not in body
    assert answer.segments is not None
    assert answer.segments[1].model_dump() == {
        "id": 1,
        "seek": 0,
        "start": 3661.25,
        "end": 3662.0,
        "text": " Who-->is it? ",
        "tokens": [50364, 7, 50414],
        "temperature": 0.0,
        "avg_logprob": -0.25,
        "compression_ratio": 0.9,
        "no_speech_prob": 0.01,
    }


def test_words_alone() -> None:
    body = json.loads(whole("verbose_json", timestamp_granularities="word"))
    assert body["words"] == [{"word": "Hello", "start": 0.0, "end": 0.5}]
    assert "segments" not in body


def test_a_translation_says_so() -> None:
    body = json.loads(whole("verbose_json", task="translate"))
    assert (body["task"], body["language"]) == ("translate", "english")


def test_content_types() -> None:
    formats = ("json", "verbose_json", "text", "srt", "vtt")
    types = [content_type_of(parse(("response_format", name))) for name in formats]
    assert types == ["application/json"] * 2 + ["text/plain"] * 2 + ["text/vtt"]


def test_a_stream() -> None:
    writer = TranscriptionStreamWriter(model="tiny")
    frames = [writer.event(event) for event in EVENTS]
    assert frames[0] == frames[2] == b""
    assert frames[1] == b'data: {"type":"transcript.text.delta","delta":"Hello <b> & co."}\n\n'
    assert frames[3] == b'data: {"type":"transcript.text.delta","delta":" Who-->is it?"}\n\n'
    done, last = frames[4].decode().split("\n\n", 1)
    assert json.loads(done.removeprefix("data: "))["text"] == TEXT
    assert last == "data: [DONE]\n\n"


def test_a_stream_that_breaks() -> None:
    writer = TranscriptionStreamWriter(model="tiny")
    data = writer.event(Failed(EngineFailed("The model failed.")))
    assert json.loads(data.decode().removeprefix("data: "))["error"]["message"] == (
        "The model failed."
    )


@given(st.lists(st.text(alphabet=" \nab.", max_size=5)))
def test_deltas_join_into_the_text(texts: list[str]) -> None:
    spoken = SpokenText()
    deltas = [spoken.add(text) for text in texts]
    assert "".join(deltas) == spoken.text == "".join(texts).strip()
