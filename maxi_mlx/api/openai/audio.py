"""A form for the speech endpoints to a `TranscriptionRequest`. Knows no multipart and no sound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal, get_args

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.transcription import MAX_PROMPT_CHARS, Task, TranscriptionRequest

AudioFormat = Literal["json", "text", "srt", "vtt", "verbose_json"]

_FORMATS: tuple[AudioFormat, ...] = get_args(AudioFormat)
_STREAMED = ("json", "text")
_GRANULARITIES = ("segment", "word")
_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0", ""})
_MAX_KEYWORDS = 100
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioCall:
    """A request, and the form in which its answer is wanted."""

    request: TranscriptionRequest
    format: AudioFormat
    stream: bool
    has_segments: bool
    has_words: bool


def parse_audio(
    fields: Sequence[tuple[str, str]],
    *,
    file: BinaryIO | None,
    task: Task,
    request_id: str,
) -> AudioCall:
    """``fields`` are the form's texts in their order; of a repeated one the last counts, but for
    lists. Raises InvalidRequest that names the field."""
    form = _Form(fields)
    if file is None:
        raise InvalidRequest(
            "The form has no part named 'file': send the recording in it.", param="file"
        )
    _refuse_what_is_not_done(form)
    answer_format = _format(form)
    stream = _flag(form, "stream")
    if stream and answer_format not in _STREAMED:
        raise InvalidRequest(
            f"'response_format' {answer_format} can't be streamed: ask for json or text, or leave "
            "out stream.",
            param="response_format",
        )
    granularities = _granularities(form, answer_format) if task == "transcribe" else ("segment",)
    request = TranscriptionRequest(
        id=request_id,
        model=form.text("model") or "",
        file=file,
        task=task,
        language=_language(form),
        prompt=_prompt(form),
        keywords=_keywords(form),
        temperature=_temperature(form),
        wants_words="word" in granularities,
    )
    return AudioCall(
        request=request,
        format=answer_format,
        stream=stream,
        has_segments="segment" in granularities,
        has_words="word" in granularities,
    )


class _Form:
    """The fields by their names, without the brackets that mark a list."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name.removesuffix("[]"), []).append(value)

    def text(self, name: str) -> str | None:
        """Without white space around it; None where there is nothing in it."""
        values = self._values.get(name)
        return (values[-1].strip() or None) if values else None

    def list(self, name: str) -> list[str]:
        return [value.strip() for value in self._values.get(name, []) if value.strip()]


def _refuse_what_is_not_done(form: _Form) -> None:
    if "logprobs" in form.list("include"):
        raise InvalidRequest(
            "'include' asks for logprobs, which aren't kept for speech.", param="include"
        )
    for name in ("known_speaker_names", "known_speaker_references"):
        if form.list(name):
            raise InvalidRequest(
                f"'{name}' has no use here: speakers aren't told apart.", param=name
            )


def _format(form: _Form) -> AudioFormat:
    asked = form.text("response_format") or "json"
    for known in _FORMATS:
        if asked == known:
            return known
    reason = "speakers aren't told apart" if asked == "diarized_json" else "it is not known"
    raise InvalidRequest(
        f"'response_format' is {_shown(asked)}, but {reason}. It may be {', '.join(_FORMATS)}.",
        param="response_format",
    )


def _granularities(form: _Form, answer_format: AudioFormat) -> tuple[str, ...]:
    name = "timestamp_granularities"
    asked = form.list(name)
    for value in asked:
        if value not in _GRANULARITIES:
            raise InvalidRequest(
                f"'{name}' has {_shown(value)}; it may have word, segment, or both.", param=name
            )
    if "word" in asked and answer_format != "verbose_json":
        raise InvalidRequest(
            f"'{name}' asks for words, which only the response_format verbose_json has.",
            param=name,
        )
    return tuple(asked) or ("segment",)


def _language(form: _Form) -> str | None:
    language = form.text("language")
    if language is None:
        several = form.list("languages")
        return several[0] if len(several) == 1 else None
    return language


def _prompt(form: _Form) -> str | None:
    prompt = form.text("prompt")
    if prompt is not None and len(prompt) > MAX_PROMPT_CHARS:
        raise InvalidRequest(
            f"'prompt' has {len(prompt)} characters, and it may have {MAX_PROMPT_CHARS}; the model "
            "reads some 220 tokens at the end of it.",
            param="prompt",
        )
    return prompt


def _keywords(form: _Form) -> tuple[str, ...]:
    words = form.list("keywords")
    words += [word.strip() for word in (form.text("hotwords") or "").split(",") if word.strip()]
    if len(words) > _MAX_KEYWORDS or sum(map(len, words)) > MAX_PROMPT_CHARS:
        raise InvalidRequest(
            f"'keywords' has {len(words)} entries, and it may have {_MAX_KEYWORDS}, with "
            f"{MAX_PROMPT_CHARS} characters in all.",
            param="keywords",
        )
    return tuple(words)


def _temperature(form: _Form) -> float:
    asked = form.text("temperature")
    if asked is None:
        return 0.0
    try:
        value = float(asked)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise InvalidRequest(
            f"'temperature' is {_shown(asked)}; it must be a number from 0 to 1.",
            param="temperature",
        )
    return value


def _flag(form: _Form, name: str) -> bool:
    asked = (form.text(name) or "").lower()
    if asked in _TRUE:
        return True
    if asked in _FALSE:
        return False
    raise InvalidRequest(f"'{name}' is {_shown(asked)}; it must be true or false.", param=name)


def _shown(value: str) -> str:
    return ascii(value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "…")
