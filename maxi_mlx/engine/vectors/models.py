"""What turns a batch of token rows into numbers: an embedding model, or one of two rerankers.

Lives on the device thread. What leaves are numpy's arrays.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from maxi_mlx.catalog.kinds import reads_pairs
from maxi_mlx.core.models import EmbeddingForm
from maxi_mlx.engine.device import transient_bytes
from maxi_mlx.engine.loading import Loading, Steps
from maxi_mlx.engine.vectors.batches import BatchSize
from maxi_mlx.engine.vectors.encoders import (
    Hidden,
    inner_model,
    load_encoder,
    load_language_layers,
    load_vlm,
)
from maxi_mlx.engine.vectors.layers import LayerNotes, Pauses, computed
from maxi_mlx.engine.vectors.pooling import Step, pool, read_steps
from maxi_mlx.engine.vectors.tokens import TokenRow, token_id

_MEASURED_TOKENS = (64, 128)


class VectorModel(Protocol):
    """Numbers for token rows: (rows, width)."""

    def compute(self, rows: Sequence[TokenRow]) -> NDArray[np.float32]:
        """All at once."""

    def steps(self, rows: Sequence[TokenRow]) -> Pauses[NDArray[np.float32]]:
        """The same, with a pause after each layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows side by side, shorter ones padded on the right."""

    tokens: mx.array
    mask: mx.array
    ends: mx.array
    segments: mx.array | None

    @staticmethod
    def of(rows: Sequence[TokenRow], *, pad_id: int) -> Batch:
        lengths = [len(row.ids) for row in rows]
        shape = (len(rows), max(lengths))
        tokens = np.full(shape, pad_id, dtype=np.int32)
        segments = np.zeros(shape, dtype=np.int32)
        for index, row in enumerate(rows):
            tokens[index, : lengths[index]] = row.ids
            if row.segments is not None:
                segments[index, : lengths[index]] = row.segments
        ends = np.array(lengths, dtype=np.int32)
        mask = (np.arange(shape[1])[None, :] < ends[:, None]).astype(np.float32)
        has_segments = any(row.segments is not None for row in rows)
        return Batch(
            tokens=mx.array(tokens),
            mask=mx.array(mask),
            ends=mx.array(ends),
            segments=mx.array(segments) if has_segments else None,
        )


@dataclass(frozen=True, kw_only=True)
class LayeredModel(ABC):
    """``notes`` are of the layers that a batch goes through."""

    notes: LayerNotes

    @abstractmethod
    def lazily(self, rows: Sequence[TokenRow]) -> mx.array:
        """Numbers for rows, not computed yet."""

    def compute(self, rows: Sequence[TokenRow]) -> NDArray[np.float32]:
        result = self.lazily(rows)
        self.notes.take()
        return _numbers(result)

    def steps(self, rows: Sequence[TokenRow]) -> Pauses[NDArray[np.float32]]:
        self.notes.take()  # of a batch that failed
        result = self.lazily(rows)
        return _numbers((yield from computed(self.notes.take(), result)))


@dataclass(frozen=True, kw_only=True)
class EmbeddingModel(LayeredModel):
    """Makes one vector of each row."""

    hidden: Hidden
    form: EmbeddingForm
    after: Sequence[Step]
    pad_id: int

    def lazily(self, rows: Sequence[TokenRow]) -> mx.array:
        batch = Batch.of(rows, pad_id=self.pad_id)
        hidden = self.hidden(batch.tokens, batch.mask, batch.segments)
        starts = mx.array([row.start for row in rows])
        vectors = pool(hidden, starts, batch.ends, self.form.pooling)
        for step in self.after:
            vectors = step(vectors)
        return vectors


@dataclass(frozen=True, kw_only=True)
class CrossEncoder(LayeredModel):
    """Scores pairs by one number of a classifier's head, before its sigmoid."""

    model: Any
    pad_id: int
    takes_segments: bool

    def lazily(self, rows: Sequence[TokenRow]) -> mx.array:
        batch = Batch.of(rows, pad_id=self.pad_id)
        more = {"token_type_ids": batch.segments} if self.takes_segments else {}
        logits: mx.array = self.model(batch.tokens, attention_mask=batch.mask, **more).logits
        return logits[:, :1]


@dataclass(frozen=True, kw_only=True)
class Judge(LayeredModel):
    """Scores pairs by how much likelier a language model's next word is yes than no."""

    model: Any
    yes_id: int
    no_id: int

    def lazily(self, rows: Sequence[TokenRow]) -> mx.array:
        batch = Batch.of(rows, pad_id=0)
        inner = inner_model(self.model)
        last = inner(batch.tokens)[mx.arange(len(rows)), batch.ends - 1]
        head = getattr(self.model, "lm_head", None)
        logits = head(last) if head is not None else inner.embed_tokens.as_linear(last)
        logits = logits.astype(mx.float32)
        scores: mx.array = logits[:, self.yes_id, None] - logits[:, self.no_id, None]
        return scores


def _numbers(array: mx.array) -> NDArray[np.float32]:
    return np.array(array.astype(mx.float32), dtype=np.float32)


def load_vectors(
    loading: Loading, config: Mapping[str, Any], tokenizer: Tokenizer
) -> Steps[VectorModel]:
    """The model of a folder. Raises what its files make a library raise."""
    entry = loading.entry
    pad_id = config.get("pad_token_id")
    pad_id = pad_id if isinstance(pad_id, int) and pad_id >= 0 else 0
    if entry.kind == "embedding":
        assert entry.embedding is not None, "an embedding model without a form has a problem"
        encoder = yield from load_encoder(loading, config)
        return EmbeddingModel(
            notes=LayerNotes(encoder.model),
            hidden=encoder.hidden,
            form=entry.embedding,
            after=read_steps(entry.path, entry.embedding.steps),
            pad_id=pad_id,
        )
    if reads_pairs((entry.architecture or "",)):
        model = yield from load_vlm(loading, config, class_name="SequenceClassificationModel")
        return CrossEncoder(
            notes=LayerNotes(model),
            model=model,
            pad_id=pad_id,
            takes_segments=config.get("model_type") == "bert",
        )
    judge = yield from load_language_layers(loading, has_head=True)
    return Judge(
        notes=LayerNotes(judge),
        model=judge,
        yes_id=token_id(tokenizer, "yes"),
        no_id=token_id(tokenizer, "no"),
    )


def measure(model: VectorModel, *, width: int, limit: int) -> BatchSize:
    """Runs a model on two lengths, which compiles its kernels and shows what memory a batch takes:
    so much a token, and so much a pair of tokens."""
    lengths = [min(length, limit) for length in _MEASURED_TOKENS]
    peaks = [_peak_bytes(model, length) for length in lengths]
    if lengths[0] == lengths[1]:
        return BatchSize(width=width, token_bytes=peaks[0] / lengths[0])
    per_token = [peak / length for peak, length in zip(peaks, lengths, strict=True)]
    pair_bytes = max((per_token[1] - per_token[0]) / (lengths[1] - lengths[0]), 0.0)
    token_bytes = max(per_token[0] - pair_bytes * lengths[0], 0.0)
    size = BatchSize(width=width, token_bytes=token_bytes, pair_bytes=pair_bytes)
    started = time.perf_counter()
    model.compute([TokenRow(ids=[0] * lengths[1])])
    size.learn(1, lengths[1], time.perf_counter() - started)
    return size


def _peak_bytes(model: VectorModel, num_tokens: int) -> int:
    rows = [TokenRow(ids=[0] * num_tokens)]
    model.compute(rows)  # compiles its kernels
    return transient_bytes(lambda: model.compute(rows))
