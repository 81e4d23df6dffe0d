"""Texts to vectors by mlx-embeddings in this process: what the server is measured against.

Owns the model; all of it happens on one thread of its own, as in `in_process.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any


class InProcessVectors:
    """Loads the model when made; `close` lets go of its thread. ``max_tokens``: where texts are
    cut."""

    def __init__(self, folder: Path, *, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="in-process")
        self._model, self._tokenizer = self._thread.submit(_load, folder).result()

    async def texts_per_s(self, texts: Sequence[str], *, batch_size: int) -> float:
        """Texts of one length after the other, so that little is padded."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._measure, texts, batch_size
        )

    def _measure(self, texts: Sequence[str], batch_size: int) -> float:
        import mlx.core as mx
        import mlx_embeddings
        import numpy as np

        began_s = time.perf_counter()
        by_length = sorted(texts, key=len)
        for begin in range(0, len(texts), batch_size):
            batch = by_length[begin : begin + batch_size]
            made: Any = mlx_embeddings.generate(
                self._model, self._tokenizer, batch, max_length=self._max_tokens
            )
            np.array(made.text_embeds)
        seconds = time.perf_counter() - began_s
        mx.clear_cache()
        return len(texts) / seconds

    def close(self) -> None:
        self._thread.shutdown()


def _load(folder: Path) -> tuple[Any, Any]:
    from maxi_mlx.engine import device

    device.prepare("auto")  # the BLAS that the server has
    import mlx_embeddings

    device.select()
    model, tokenizer = mlx_embeddings.load(str(folder))
    return model, tokenizer
