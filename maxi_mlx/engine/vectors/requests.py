"""One request for vectors or scores: its inputs made on a worker thread, its rows awaited.

Lives on the event loop. A caller that is cancelled takes its inputs off the device.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from maxi_mlx.core.embedding import (
    EmbeddingRequest,
    EmbeddingResult,
    ScoreMethod,
    ScoreRequest,
    ScoreResult,
)
from maxi_mlx.core.errors import DoesNotFit, EngineFailed, InvalidRequest
from maxi_mlx.core.models import EmbeddingForm, ModelEntry
from maxi_mlx.engine.device_thread import DeviceThread
from maxi_mlx.engine.mailbox import FaultNews, Mailbox, RowsNews
from maxi_mlx.engine.vectors.job import VectorJob
from maxi_mlx.engine.vectors.loading import VectorHandle
from maxi_mlx.engine.vectors.tokens import EmbeddingTexts, TokenRow

T = TypeVar("T")

_SHORTEST = 1e-12


@dataclass(frozen=True, slots=True)
class Vectors:
    """Asks one lent model. ``on_begin`` is called once its inputs are on the device."""

    handle: VectorHandle
    device: DeviceThread
    threads: Executor
    on_begin: Callable[[], None]

    @property
    def _entry(self) -> ModelEntry:
        return self.handle.work.entry

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResult:
        entry, texts = self._entry, self.handle.texts
        assert isinstance(texts, EmbeddingTexts), "the engine lends embedding models for this"
        assert entry.embedding is not None
        dimensions = _checked_dimensions(
            request.dimensions, entry.embedding, model=entry.id, width=self.handle.width
        )
        rows = await self._on_thread(partial(texts.rows, request))
        self._check_memory(rows)
        numbers = await self._compute(rows)
        if dimensions < self.handle.width:
            numbers = await self._on_thread(lambda: unit_rows(numbers[:, :dimensions]))
        return EmbeddingResult(model=entry.id, rows=numbers, prompt_tokens=_num_tokens(rows))

    async def score(self, request: ScoreRequest) -> ScoreResult:
        texts = self.handle.texts
        method: ScoreMethod = "cross-encoder"
        if isinstance(texts, EmbeddingTexts):
            method = "embedding similarity"
            rows = await self._on_thread(partial(_both_sides, texts, request))
        else:
            rows = await self._on_thread(partial(texts.rows, request))
        self._check_memory(rows)
        numbers = await self._compute(rows)
        if method == "embedding similarity":
            scores = _similarities(unit_rows(numbers), num_queries=len(request.queries))
        else:
            scores = [float(row[0]) for row in numbers]
            if not request.raw:
                scores = [_sigmoid(score) for score in scores]
        return ScoreResult(
            model=self._entry.id,
            scores=tuple(scores),
            method=method,
            prompt_tokens=_num_tokens(rows),
        )

    async def _on_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, function)

    def _check_memory(self, rows: Sequence[TokenRow]) -> None:
        longest = max(len(row.ids) for row in rows)
        needed_bytes = self.handle.work.size.memory_bytes(1, longest)
        left_bytes = max(self.device.limit_bytes - self._entry.weight_bytes, 0)
        if needed_bytes > left_bytes:
            raise DoesNotFit(
                f"An input of {longest} tokens needs {needed_bytes / 2**20:.0f} MiB on "
                f"{self._entry.id}, but {left_bytes / 2**20:.0f} MiB are left beside its weights. "
                "Shorten it."
            )

    async def _compute(self, rows: Sequence[TokenRow]) -> NDArray[np.float32]:
        mailbox = Mailbox()
        work, job = self.handle.work, VectorJob(mailbox, rows)
        try:
            await self.device.call(lambda: work.submit(job))
            self.on_begin()
            while True:
                for news in await mailbox.take():
                    if isinstance(news, RowsNews):
                        return _finite(news.rows, model=self._entry.id)
                    if isinstance(news, FaultNews):
                        raise news.error
        finally:
            self.device.post(lambda: work.cancel(mailbox))


def _checked_dimensions(asked: int | None, form: EmbeddingForm, *, model: str, width: int) -> int:
    if asked is None or asked == width:
        return width
    if asked > width:
        raise InvalidRequest(
            f"'dimensions' is {asked}, but the vectors of {model} have {width} numbers.",
            param="dimensions",
        )
    if form.least_dimension is not None:
        if asked >= form.least_dimension:
            return asked
        may = f"may be cut to {form.least_dimension} and more"
    elif asked in form.dimensions:
        return asked
    elif form.dimensions:
        may = f"may be cut to {', '.join(map(str, form.dimensions))}"
    else:
        may = "were not trained to be cut"
    raise InvalidRequest(
        f"'dimensions' is {asked}, but the vectors of {model} have {width} numbers and {may}.",
        param="dimensions",
    )


def _finite(rows: NDArray[np.float32], *, model: str) -> NDArray[np.float32]:
    """Half precision overflows in some models; JSON has no such numbers."""
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        raise EngineFailed(f"{model} gave no finite numbers for the input at place {broken[0]}.")
    return rows


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    result: NDArray[np.float32] = (rows / np.maximum(lengths, _SHORTEST)).astype(np.float32)
    return result


def _both_sides(texts: EmbeddingTexts, request: ScoreRequest) -> list[TokenRow]:
    """Queries, then documents, each with the prompt that the model has for it."""
    ask = partial(EmbeddingRequest, id=request.id, model=request.model, truncate=request.truncate)
    query_field, document_field = request.fields
    queries = texts.rows(ask(inputs=request.queries, input_type="query"), field=query_field)
    documents = ask(inputs=request.documents, input_type="document")
    return [*queries, *texts.rows(documents, field=document_field)]


def _similarities(rows: NDArray[np.float32], *, num_queries: int) -> list[float]:
    queries, documents = rows[:num_queries], rows[num_queries:]
    return [float(value) for value in (queries * documents).sum(axis=1)]


def _sigmoid(value: float) -> float:
    # Two forms, so that neither overflows.
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))


def _num_tokens(rows: Sequence[TokenRow]) -> int:
    return sum(len(row.ids) for row in rows)
