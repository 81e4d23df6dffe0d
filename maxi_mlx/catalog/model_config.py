"""What a config.json says of a model's size: its context and its quantisation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CONTEXT_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
    "model_max_length",
)
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
# Tokenizers without a limit of their own carry 1e30 here, or 2^63.
_MAX_SANE_LENGTH = 1 << 32

# What mlx-lm turns into its own quantisation while loading; `fp8` only in some models.
_READABLE_METHODS = frozenset(
    ("awq", "bitnet", "compressed-tensors", "fp8", "gptq", "modelopt", "mxfp4", "mxfp8")
)


def context_length(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int | None:
    """The longest sequence the model was made for, in tokens.

    The tokenizer's own limit counts only where the config has none: it is where some models'
    training cut texts (16,384 in models that read 131,072), not what they read.
    """
    parts = [config, *(config.get(name) for name in _TEXT_PARTS)]
    for part in parts:
        if not isinstance(part, dict):
            continue
        for key in _CONTEXT_KEYS:
            if (length := _length(part.get(key))) is not None:
                return length
    return _length(tokenizer_config.get("model_max_length"))


def _length(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_SANE_LENGTH:
        return value
    return None


def quantization(config: Mapping[str, Any]) -> str | None:
    """``4-bit``, ``mxfp4``, ``fp8``…; None for plain floats."""
    settings = _quantization_settings(config)
    if settings is None:
        return None
    method = settings.get("mode") or settings.get("quant_method")
    if method == "modelopt":
        method = settings.get("quant_algo")
    bits = settings.get("bits")
    if isinstance(bits, int) and (method is None or method in ("affine", "awq", "gptq")):
        return f"{bits}-bit"
    return str(method).lower() if isinstance(method, str) else "quantised"


def unreadable_quantization(config: Mapping[str, Any]) -> str | None:
    """The method's name where mlx-lm can't read weights quantised by it."""
    settings = _quantization_settings(config)
    if settings is None or isinstance(config.get("quantization"), dict):
        return None
    method = settings.get("quant_method")
    if isinstance(method, str) and method not in _READABLE_METHODS:
        return method
    return None


def _quantization_settings(config: Mapping[str, Any]) -> dict[str, Any] | None:
    for part in (config, config.get("text_config")):
        if not isinstance(part, dict):
            continue
        for key in ("quantization", "quantization_config"):
            settings = part.get(key)
            if isinstance(settings, dict) and settings:
                return settings
    return None
