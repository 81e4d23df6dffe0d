"""What a window takes in memory for as long as it is worked on, beside the weights."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import mlx.core as mx
import numpy as np

from maxi_mlx.engine.device import transient_bytes
from maxi_mlx.engine.loading import Steps
from maxi_mlx.engine.speech.alignment import align
from maxi_mlx.engine.speech.speech_model import SpeechModel
from maxi_mlx.engine.speech.window import WINDOW_FRAMES, encode, transcribe_window
from maxi_mlx.engine.transient import with_spread

T = TypeVar("T")

# Of an attempt: the first has read the context, and what comes after takes hardly more.
_MEASURED_TOKENS = 3


def measure_window(speech: SpeechModel) -> Steps[int]:
    """In bytes, of a window with the longest context and the longest text: its real work, pause by
    pause."""
    meter = _Meter()
    mel = mx.zeros((WINDOW_FRAMES, speech.model.dims.n_mels))
    encoded = yield from meter.whole(encode(speech, mel))
    tokenizer = speech.tokenizer(language="en", task="transcribe")
    text = [tokenizer.eot - 1] * (speech.text_context // 2 - 1)
    attempt = transcribe_window(
        speech, encoded, tokenizer, context=text, temperatures=(0.0,), seed=0
    )
    yield from meter.beginning(attempt, _MEASURED_TOKENS)
    voiced = np.ones(WINDOW_FRAMES, dtype=np.bool_)
    yield from meter.whole(align(speech, encoded, tokenizer, text, voiced=voiced))
    return with_spread(meter.most_bytes)


class _Meter:
    """Adds up what pieces of work keep, since others may have the device between two of them."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._kept_bytes = 0

    def whole(self, work: Generator[None, None, T]) -> Steps[T]:
        while True:
            try:
                self._piece(work)
            except StopIteration as end:
                value: T = end.value
                return value
            yield None

    def beginning(self, work: Generator[None, None, T], num_pieces: int) -> Steps[None]:
        try:
            for _ in range(num_pieces):
                self._piece(work)
                yield None
        except StopIteration:
            return
        before_bytes = mx.get_active_memory()
        work.close()
        self._kept_bytes += mx.get_active_memory() - before_bytes

    def _piece(self, work: Generator[None, None, T]) -> None:
        before_bytes = mx.get_active_memory()
        ends: list[StopIteration] = []

        def go_on() -> None:
            try:
                next(work)
            except StopIteration as end:
                ends.append(end)

        self.most_bytes = max(self.most_bytes, self._kept_bytes + transient_bytes(go_on))
        self._kept_bytes += mx.get_active_memory() - before_bytes
        if ends:
            raise ends[0]
