"""What a model will need of the memory, known from its files before anything is loaded.

Knows no MLX: weights come from the safetensors headers, keys and values from config.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maxi_mlx.catalog.model_files import BrokenFile, read_object
from maxi_mlx.core.errors import DoesNotFit
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.memory_room import gigabytes

# Weights need a little more than their own size: buffers of one step.
_LOAD_MARGIN = 1.05
# What an answer is to have room for, so that a model that was loaded is of use.
_ADMITTED_TOKENS = 4096
_WRITERS = ("language", "vision")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """Of a model, with room for the keys and values of ``num_tokens``."""

    weight_bytes: int
    kv_bytes: int
    num_tokens: int

    @property
    def num_bytes(self) -> int:
        return int(self.weight_bytes * _LOAD_MARGIN) + self.kv_bytes

    def __str__(self) -> str:
        if not self.kv_bytes:
            return gigabytes(self.num_bytes)
        return (
            f"{gigabytes(self.num_bytes)} ({gigabytes(self.weight_bytes)} of weights, the rest for "
            f"a context of {self.num_tokens} tokens)"
        )


def need_of(entry: ModelEntry, *, kv_bits: int | None, max_kv_size: int | None) -> MemoryNeed:
    """Reads the folder's config.json. One that can't be read counts for nothing: loading tells."""
    tokens = min(entry.context_length or _ADMITTED_TOKENS, max_kv_size or _ADMITTED_TOKENS)
    tokens = min(tokens, _ADMITTED_TOKENS)
    kv_bytes = 0
    if entry.kind in _WRITERS:
        values = _text_config(entry)
        kv_bytes = int(tokens * _values_per_token(values) * _value_bytes(values, kv_bits))
    return MemoryNeed(weight_bytes=entry.weight_bytes, kv_bytes=kv_bytes, num_tokens=tokens)


def num_heads(entry: ModelEntry) -> int:
    """How many queries a token has in a layer, by config.json; 0 where it says nothing."""
    return _heads(_text_config(entry))


def check_ever_fits(entry: ModelEntry, need: MemoryNeed, limit_bytes: int) -> None:
    """Raises DoesNotFit where it won't, whoever makes room. ``limit_bytes`` is for all models."""
    beside = ""
    if entry.base is not None:
        limit_bytes = max(limit_bytes - entry.base.weight_bytes, 0)
        beside = f" beside {entry.base.id}"
    if need.num_bytes > limit_bytes:
        raise DoesNotFit(
            f"{entry.id} needs {need}, but models may take {gigabytes(limit_bytes)} on this "
            f"machine{beside}. Use a smaller or a more strongly quantised model, or raise "
            "memory_share.",
            param="model",
        )


def _text_config(entry: ModelEntry) -> Mapping[str, Any]:
    """Of a model that reads more than text, that part; empty where nothing can be read."""
    try:
        config = read_object(entry.path / "config.json")
    except BrokenFile:
        return {}
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, dict) else config


def _heads(config: Mapping[str, Any]) -> int:
    return _count(config, "num_attention_heads", "n_head", "n_heads")


def _values_per_token(config: Mapping[str, Any]) -> int:
    """Over all layers; layers with a window or a state take less, so that this is the most."""
    layers = _count(config, "num_hidden_layers", "n_layer", "n_layers")
    latent = _count(config, "kv_lora_rank")
    if latent:
        return layers * (latent + _count(config, "qk_rope_head_dim"))
    heads = _heads(config)
    size = _count(config, "head_dim") or _count(config, "hidden_size", "n_embd", "d_model") // max(
        heads, 1
    )
    return layers * 2 * (_count(config, "num_key_value_heads") or heads) * size


def _value_bytes(config: Mapping[str, Any], kv_bits: int | None) -> float:
    if kv_bits is not None:
        return (kv_bits + 1) / 8  # with scales and biases
    return 4.0 if "float32" in (config.get("torch_dtype"), config.get("dtype")) else 2.0


def _count(config: Mapping[str, Any], *names: str) -> int:
    """The first of the names that has a sound number, 0 where none has."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**24:
            return value
    return 0
