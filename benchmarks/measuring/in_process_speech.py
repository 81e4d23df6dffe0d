"""Speech to text by mlx-whisper in this process: what the server is measured against.

In single precision, which the folder has and the server computes in. mlx-whisper keeps the model
itself; all of it happens on one thread, as in `in_process.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class InProcessSpeech:
    """Loads the model when made; `close` lets go of its thread. Samples are at 16 kHz."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="in-process")
        self._thread.submit(_load, self._folder).result()

    async def transcribe(self, samples: Any) -> tuple[float, str]:
        """The seconds that it takes, and the text."""
        return await self._run(lambda: _transcribe(self._folder, samples))

    async def window_s(self, samples: Any) -> float:
        """The time of one window: half a minute encoded, and its text decoded."""
        return await self._run(lambda: _window_s(self._folder, samples))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        self._thread.shutdown()


def _load(folder: str) -> None:
    from maxi_mlx.engine import device

    device.prepare("auto")  # the BLAS that the server has
    import mlx.core as mx

    device.select()
    _model(folder)
    mx.clear_cache()


def _model(folder: str) -> Any:
    import mlx.core as mx
    from mlx_whisper.transcribe import ModelHolder

    return ModelHolder.get_model(folder, mx.float32)


def _transcribe(folder: str, samples: Any) -> tuple[float, str]:
    import mlx_whisper

    began_s = time.perf_counter()
    answer = mlx_whisper.transcribe(samples, path_or_hf_repo=folder, fp16=False)
    return time.perf_counter() - began_s, str(answer["text"])


def _window_s(folder: str, samples: Any) -> float:
    from mlx_whisper.audio import N_FRAMES, log_mel_spectrogram, pad_or_trim
    from mlx_whisper.decoding import DecodingOptions

    model = _model(folder)
    mel = pad_or_trim(log_mel_spectrogram(samples, n_mels=model.dims.n_mels), N_FRAMES, axis=-2)
    began_s = time.perf_counter()
    model.decode(mel, DecodingOptions(language="en", fp16=False))
    return time.perf_counter() - began_s
