"""One window of 30 s: heard by the encoder, then written down by the decoder, step by step.

    mel ─► encode ─► [ write at temperature 0 ─► looks wrong? ─► write at 0.2 ─► … ] ─► Attempt

Everything is a generator that pauses where the device may do something else; what was begun is
computed by then. Runs on the device thread.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import mlx.core as mx
from mlx.nn.layers.activations import gelu

from maxi_mlx.engine.speech.loops import MAX_COMPRESSION, compression_ratio
from maxi_mlx.engine.speech.rules import Bounds, bounds_after
from maxi_mlx.engine.speech.speech_model import SpeechModel

T = TypeVar("T")
Steps = Generator[None, None, T]

# Whisper's own thresholds.
_LEAST_LOGPROB = -1.0
_MOST_NO_SPEECH = 0.6
_STEP_TEMPERATURE = 0.2
_MAX_TEMPERATURE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What the decoder wrote at one temperature. ``tokens`` are words and times, without marks."""

    tokens: tuple[int, ...]
    avg_logprob: float
    no_speech_prob: float
    temperature: float
    compression_ratio: float

    @property
    def is_silence(self) -> bool:
        return self.no_speech_prob > _MOST_NO_SPEECH and self.avg_logprob <= _LEAST_LOGPROB

    @property
    def is_loop(self) -> bool:
        return self.compression_ratio > MAX_COMPRESSION

    @property
    def looks_right(self) -> bool:
        return not self.is_loop and self.avg_logprob >= _LEAST_LOGPROB


def temperatures_from(lowest: float) -> list[float]:
    """The lowest and, in steps of 0.2, all up to 1."""
    count = max(0, math.floor((_MAX_TEMPERATURE - lowest) / _STEP_TEMPERATURE + 1e-6))
    return [round(lowest + step * _STEP_TEMPERATURE, 4) for step in range(count + 1)]


def encode(speech: SpeechModel, mel: mx.array) -> Steps[mx.array]:
    """What the decoder listens to. ``mel`` has shape (3000, n_mels)."""
    encoder = speech.model.encoder
    x: mx.array
    x = gelu(encoder.conv1(mel[None].astype(speech.dtype)))
    x = gelu(encoder.conv2(x)) + encoder._positional_embedding
    for block in encoder.blocks:
        before, x = x, block(x)[0]
        # The device has the next layer to do while this thread waits for the one before.
        mx.async_eval(x)  # type: ignore[no-untyped-call]
        mx.eval(before)
        yield
    x = encoder.ln_post(x)
    mx.eval(x)
    yield
    return x


def detect_language(speech: SpeechModel, encoded: mx.array) -> str:
    """The code of the likeliest language."""
    tokenizer = speech.tokenizer(language=None, task="transcribe")
    logits = speech.model.logits(mx.array([[tokenizer.sot]]), encoded)[0, 0]
    tokens = tokenizer.all_language_tokens
    best = _integer(mx.argmax(logits[mx.array(tokens)]))
    return str(tokenizer.all_language_codes[best])


def transcribe_window(
    speech: SpeechModel,
    encoded: mx.array,
    tokenizer: Any,
    *,
    context: Sequence[int],
    temperatures: Sequence[float],
    seed: int,
) -> Steps[Attempt]:
    """The first attempt that looks right or tells of silence; where none does, the likeliest that
    is no loop. ``context`` are the tokens of what comes before."""
    attempts = []
    for temperature in temperatures:
        attempt = yield from _write(
            speech, encoded, tokenizer, context=context, temperature=temperature, seed=seed
        )
        if attempt.looks_right or attempt.is_silence:
            return attempt
        attempts.append(attempt)
    return max(attempts, key=lambda attempt: (not attempt.is_loop, attempt.avg_logprob))


def _write(
    speech: SpeechModel,
    encoded: mx.array,
    tokenizer: Any,
    *,
    context: Sequence[int],
    temperature: float,
    seed: int,
) -> Steps[Attempt]:
    """One text of the window. The device is always one token ahead of this thread."""
    decoder = speech.model.decoder
    start = [tokenizer.sot_prev, *context] if context else []
    prompt = [*start, *tokenizer.sot_sequence]
    most = min(speech.text_context // 2, speech.text_context - len(prompt))
    key = mx.random.key(seed) if temperature > 0 else None
    logits, cache, _ = decoder(mx.array([prompt]), encoded)
    no_speech = mx.softmax(logits[0, len(start)].astype(mx.float32))[tokenizer.no_speech]
    mx.async_eval(no_speech)  # type: ignore[no-untyped-call]  # or the prompt's logits stay
    written: list[int] = []
    sum_logprobs = 0.0
    while len(written) < most:
        drawing = None
        if key is not None:
            key, draw = mx.random.split(key)
            drawing = _Drawing(temperature, draw)
        next_token, logprob = _choose(
            speech,
            logits[0, -1].astype(mx.float32),
            bounds_after(written, time_begin=tokenizer.timestamp_begin),
            tokenizer,
            drawing=drawing,
        )
        if len(written) + 1 < most:
            logits, cache, _ = decoder(next_token[None, None], encoded, kv_cache=cache)
        mx.async_eval(next_token, logprob, logits)  # type: ignore[no-untyped-call]
        token = _integer(next_token)
        sum_logprobs += _number(logprob)
        yield
        if token == tokenizer.eot:
            break
        written.append(token)
    return _attempt(
        written, tokenizer, sum_logprobs, no_speech_prob=_number(no_speech), temperature=temperature
    )


def _attempt(
    written: Sequence[int],
    tokenizer: Any,
    sum_logprobs: float,
    *,
    no_speech_prob: float,
    temperature: float,
) -> Attempt:
    text = tokenizer.decode([token for token in written if token < tokenizer.eot]).strip()
    return Attempt(
        tokens=tuple(written),
        avg_logprob=_sound(sum_logprobs / (len(written) + 1)),
        no_speech_prob=no_speech_prob,
        temperature=temperature,
        compression_ratio=compression_ratio(text),
    )


@dataclass(frozen=True, slots=True)
class _Drawing:
    """How a token is drawn where not the likeliest is taken."""

    temperature: float
    key: mx.array


def _choose(
    speech: SpeechModel,
    logits: mx.array,
    bounds: Bounds,
    tokenizer: Any,
    *,
    drawing: _Drawing | None,
) -> tuple[mx.array, mx.array]:
    """The next token within its bounds, and its logarithm of probability among what they leave;
    both not computed yet."""
    begin = tokenizer.timestamp_begin
    parts, starts = [], []
    if bounds.text or bounds.end:
        first = 0 if bounds.text else tokenizer.eot
        parts.append(logits[first:begin] + speech.suppressed[first:])
        starts.append(first)
    if bounds.times:
        times = logits[begin + bounds.first_time : begin + bounds.last_time + 1]
        if parts:
            # Together likelier than any word: then it is a time that comes.
            is_time = mx.logsumexp(times) > parts[0].max()
            parts[0] = mx.where(is_time, -mx.inf, parts[0])
        parts.append(times)
        starts.append(begin + bounds.first_time)
    candidates = mx.concatenate(parts)
    if drawing is not None:
        place = mx.random.categorical(candidates / drawing.temperature, key=drawing.key)
    else:
        place = mx.argmax(candidates)
    logprob = candidates[place] - mx.logsumexp(candidates)
    first_size = parts[0].size
    token = mx.where(
        place < first_size, place.astype(mx.int32) + starts[0],
        place.astype(mx.int32) - first_size + starts[-1],
    )  # fmt: skip
    return token, logprob


def _integer(value: mx.array) -> int:
    return int(value.item())  # type: ignore[arg-type]


def _number(value: mx.array) -> float:
    return float(value.item())  # type: ignore[arg-type]


def _sound(number: float) -> float:
    """JSON has no NaN, and a model in half precision can overflow."""
    return number if math.isfinite(number) else -100.0
