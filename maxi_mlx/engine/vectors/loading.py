"""Loads an embedding model or a reranker with all that serves it. Runs on the device thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxi_mlx.catalog.kinds import SERVED_ENCODERS
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.device_thread import DeviceThread
from maxi_mlx.engine.installation import require_add_on
from maxi_mlx.engine.loading import Loading, Steps

if TYPE_CHECKING:
    from maxi_mlx.engine.vectors.tokens import EmbeddingTexts, JudgedTexts, PairTexts
    from maxi_mlx.engine.vectors.work import VectorWork

# For a model that names no limit: memory is the limit then.
_UNLIMITED_TOKENS = 1 << 20


EXTRA = "embeddings"
_MODULES = ("mlx_embeddings", "mlx_vlm", "PIL", "requests")


def require_vector_packages(entry: ModelEntry) -> None:
    """Raises NotInstalled where a model needs more than mlx-lm, which has language models alone.
    Looks for files."""
    if entry.model_type in SERVED_ENCODERS:
        require_add_on(EXTRA, _MODULES, what=f"The model {entry.id}")


@dataclass(slots=True, eq=False)
class VectorHandle:
    """A model that can be used while the pool lends it. ``width`` is the length of its rows;
    ``texts`` makes inputs for it, of embedding requests or of pairs."""

    work: VectorWork
    texts: EmbeddingTexts | PairTexts | JudgedTexts
    width: int


def load_vector_model(loading: Loading, device_thread: DeviceThread) -> Steps[VectorHandle]:
    from maxi_mlx.engine.vectors import models, tokens
    from maxi_mlx.engine.vectors.pooling import read_config
    from maxi_mlx.engine.vectors.work import VectorWork

    entry = loading.entry
    config = read_config(entry.path)
    tokenizer, has_segments = yield from loading.elsewhere(
        lambda: tokens.read_tokenizer(entry.path)
    )
    model = yield from models.load_vectors(loading, config, tokenizer)
    limit = entry.context_length or _UNLIMITED_TOKENS
    num_ids = int(config.get("vocab_size", tokenizer.get_vocab_size()))
    size = models.measure(model, width=int(config["hidden_size"]), limit=limit)
    yield None
    texts: EmbeddingTexts | PairTexts | JudgedTexts
    if isinstance(model, models.Judge):
        texts = tokens.JudgedTexts(tokenizer, entry, limit=limit, num_ids=num_ids)
    else:
        plain = tokens.Texts(tokenizer, entry, limit=limit, num_ids=num_ids)
        if entry.embedding is not None:
            texts = tokens.EmbeddingTexts(plain, entry, entry.embedding)
        else:
            texts = tokens.PairTexts(plain, takes_segments=has_segments)
    work = VectorWork(model, entry, size, memory_left_bytes=device_thread.memory_left_bytes)
    width = model.compute([tokens.TokenRow(ids=[0])]).shape[1]
    return VectorHandle(work, texts, width)
