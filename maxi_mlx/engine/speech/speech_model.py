"""A loaded Whisper model, its tokenizers, and what is the same for every window.

Made and used on the device thread; only `tokens_of` and `language_code`, which touch no array,
run elsewhere too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_whisper.tokenizer import LANGUAGES, TO_LANGUAGE_CODE, Tokenizer, get_tokenizer
from mlx_whisper.whisper import Whisper

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.transcription import Task, TranscriptionRequest
from maxi_mlx.engine.loading import Loading, Steps, finish
from maxi_mlx.engine.speech.features import Floats, mel_filters
from maxi_mlx.engine.speech.whisper_folder import load_whisper

ENGLISH = "en"
_DETECTED = frozenset({"", "auto", "detect"})


@dataclass(slots=True, kw_only=True, eq=False)
class SpeechModel:
    """``suppressed`` has minus infinity for each token below the times that is never written:
    signs that nobody speaks, and the model's own marks."""

    entry: ModelEntry
    model: Whisper
    dtype: mx.Dtype
    filters: Floats
    suppressed: mx.array

    @property
    def is_multilingual(self) -> bool:
        return bool(self.model.is_multilingual)

    @property
    def text_context(self) -> int:
        """Tokens that a window's text and what comes before it may have."""
        return int(self.model.dims.n_text_ctx)

    @property
    def alignment_heads(self) -> list[tuple[int, int]]:
        heads = np.array(self.model.alignment_heads).reshape(-1, 2)
        return [(layer, head) for layer, head in heads.tolist()]

    def tokenizer(self, *, language: str | None, task: Task) -> Tokenizer:
        return get_tokenizer(
            self.is_multilingual,
            num_languages=self.model.num_languages,
            language=language if self.is_multilingual else None,
            task=task if self.is_multilingual else None,
        )

    def tokens_of(self, text: str) -> list[int]:
        # Never a mark, whatever a client writes.
        tokenizer = self.tokenizer(language=ENGLISH, task="transcribe")
        return list(tokenizer.encode(" " + text.strip(), disallowed_special=()))

    def check(self, request: TranscriptionRequest) -> None:
        """Raises InvalidRequest for what this model can't do."""
        if request.task == "translate" and not self.is_multilingual:
            raise InvalidRequest(
                f"{self.entry.id} knows English alone and can't translate. Name a multilingual "
                "Whisper model, or send the file to /v1/audio/transcriptions.",
                param="model",
            )
        self.language_code(request.language)

    def language_code(self, language: str | None) -> str | None:
        """Whisper's code for a code or an English name; None: to be found out by listening.

        Raises InvalidRequest for one that the model doesn't know.
        """
        if not self.is_multilingual:
            return self._english(language)
        if language is None or language.strip().lower() in _DETECTED:
            return None
        code = code_of(language)
        codes = list(LANGUAGES)[: self.model.num_languages]
        if code not in codes:
            raise InvalidRequest(
                f"The language {language[:40]!r} is none that {self.entry.id} knows. Give a code "
                "such as 'de' or an English name such as 'german', or leave it out to have it "
                "found out.",
                param="language",
            )
        return code

    def _english(self, language: str | None) -> str:
        if language is None or language.strip().lower() in _DETECTED:
            return ENGLISH
        if code_of(language) != ENGLISH:
            raise InvalidRequest(
                f"{self.entry.id} knows English alone, not {language[:40]!r}: name a multilingual "
                "Whisper model.",
                param="language",
            )
        return ENGLISH


def code_of(language: str) -> str | None:
    """Whisper's code for a code ("de", "de-AT") or an English name ("German"), if it has one."""
    name = language.strip().lower().replace("_", "-")
    for candidate in (name, name.partition("-")[0]):
        if candidate in LANGUAGES:
            return candidate
        if candidate in TO_LANGUAGE_CODE:
            return str(TO_LANGUAGE_CODE[candidate])
    return None


def language_name(code: str) -> str:
    return str(LANGUAGES[code])


def load_speech_model(entry: ModelEntry) -> SpeechModel:
    """Loads a folder at once, with nobody else on the device."""
    return finish(speech_model_steps(Loading(entry)))


def speech_model_steps(loading: Loading) -> Steps[SpeechModel]:
    model, dtype = yield from load_whisper(loading)
    tokenizer = get_tokenizer(model.is_multilingual, num_languages=model.num_languages)
    suppressed = np.zeros(tokenizer.timestamp_begin, np.float32)
    suppressed[_never_written(tokenizer)] = -np.inf
    array = mx.array(suppressed)
    mx.eval(array)
    return SpeechModel(
        entry=loading.entry,
        model=model,
        dtype=dtype,
        filters=mel_filters(model.dims.n_mels),
        suppressed=array,
    )


def _never_written(tokenizer: Any) -> Sequence[int]:
    marks = [
        token
        for token in tokenizer.special_tokens.values()
        if tokenizer.eot < token < tokenizer.timestamp_begin
    ]
    return [*tokenizer.non_speech_tokens, *marks]
