"""What caches a model's rows get: mlx-lm's own, or quantised, or with a window.

    --kv-bits N       keys and values with N bits each, in the layers whose cache grows
    --max-kv-size N   of those layers the first few tokens and the latest N

Neither kind can be merged into a batch, so such rows decode one by one. Where a model's caches do
not allow it, loading the model is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlx_lm.models.cache import (
    CacheList,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from maxi_mlx.core.errors import InvalidRequest

# The first tokens draw attention whatever they are; without them a model with a window that it was
# not trained for falls apart (Xiao et al. 2023).
_SINK_TOKENS = 4
_GROUP_SIZES = (64, 32)


@dataclass(frozen=True, slots=True)
class CacheForm:
    """The owner's wish, the same for all models."""

    kv_bits: int | None = None
    max_kv_size: int | None = None

    @property
    def is_plain(self) -> bool:
        return self.kv_bits is None and self.max_kv_size is None

    def maker(self, model: Any, *, head_size: int | None) -> Callable[[], list[Any]]:
        """Makes the empty caches of one row. ``head_size`` is what a key has in a layer that
        grows; None where no layer does. Raises InvalidRequest where the wish can't be had."""
        if self.is_plain:
            return lambda: list(make_prompt_cache(model))
        flag = f"--kv-bits {self.kv_bits}" if self.kv_bits else f"--max-kv-size {self.max_kv_size}"
        plain = make_prompt_cache(model)
        if head_size is None or any(isinstance(entry, CacheList) for entry in plain):
            raise InvalidRequest(
                f"{flag} has nothing to act on: the model keeps no plain KV cache."
            )
        if self.max_kv_size is not None:
            window = self.max_kv_size
            return _replacing(model, lambda: RotatingKVCache(max_size=window, keep=_SINK_TOKENS))
        assert self.kv_bits is not None
        if any(isinstance(entry, RotatingKVCache) for entry in plain):
            raise InvalidRequest(f"{flag} can't be had: mlx-lm can't quantise a sliding window.")
        group_size = next((size for size in _GROUP_SIZES if head_size % size == 0), None)
        if group_size is None:
            raise InvalidRequest(
                f"{flag} can't be had: the model's heads have {head_size} values, which is no "
                f"multiple of {_GROUP_SIZES[-1]}."
            )
        bits, group = self.kv_bits, group_size
        return _replacing(model, lambda: QuantizedKVCache(group_size=group, bits=bits))


def _replacing(model: Any, make: Callable[[], Any]) -> Callable[[], list[Any]]:
    def caches() -> list[Any]:
        plain = make_prompt_cache(model)
        return [make() if type(entry) is KVCache else entry for entry in plain]

    return caches
