"""Reads a Whisper folder, in mlx-whisper's form or Hugging Face's, into mlx-whisper's model.

Runs on the device thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten
from mlx_whisper.whisper import ModelDimensions, Whisper

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.engine.loading import Loading, Steps

Weights = dict[str, mx.array]

# What both forms of config.json call a model's measures.
_HF_NAMES: Mapping[str, str] = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_vocab": "vocab_size",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}
# Parts of Hugging Face's tensor names, and mlx-whisper's. The first that matches counts.
_HF_PARTS: tuple[tuple[str, str], ...] = (
    (r"^model\.", ""),
    (r"\.layers\.", ".blocks."),
    (r"\bself_attn_layer_norm\b", "attn_ln"),
    (r"\bencoder_attn_layer_norm\b", "cross_attn_ln"),
    (r"\bfinal_layer_norm\b", "mlp_ln"),
    (r"\bself_attn\b", "attn"),
    (r"\bencoder_attn\b", "cross_attn"),
    (r"\bq_proj\b", "query"),
    (r"\bk_proj\b", "key"),
    (r"\bv_proj\b", "value"),
    (r"\bout_proj\b", "out"),
    (r"\bfc1\b", "mlp1"),
    (r"\bfc2\b", "mlp2"),
    (r"^encoder\.layer_norm\b", "encoder.ln_post"),
    (r"^decoder\.layer_norm\b", "decoder.ln"),
    (r"^decoder\.embed_tokens\b", "decoder.token_embedding"),
    (r"^decoder\.embed_positions\.weight$", "decoder.positional_embedding"),
    (r"^encoder\.embed_positions\.weight$", "encoder.positional_embedding"),
)
_KERNEL_SIZE = 3
_NUM_FRAMES = 3000
_FIRST_VOCABULARY = 51_864  # English alone; the tokenizers are mlx-whisper's own


def load_whisper(loading: Loading) -> Steps[tuple[Whisper, mx.Dtype]]:
    """The model, and the type that it computes in. Raises InvalidRequest for what is missing."""
    folder = loading.entry.path
    config = _read_object(folder / "config.json")
    dims = _dimensions(config, folder)
    weights = _plain_names(_read_weights(folder))
    weights.update(_alignment_heads(folder, weights))
    dtype = _dtype(weights)
    model = Whisper(dims, dtype)
    quantization = config.get("quantization")
    if isinstance(quantization, dict):
        settings = {k: quantization[k] for k in ("group_size", "bits", "mode") if k in quantization}
        quantize(model, **settings, class_predicate=lambda path, _: f"{path}.scales" in weights)
    positions = weights.pop("encoder.positional_embedding", None)
    if positions is not None:
        model.encoder._positional_embedding = positions.astype(dtype)
    _fill(model, {name: _cast(value, dtype) for name, value in weights.items()}, folder)
    arrays = dict(tree_flatten(model.parameters())).values()
    yield from loading.evaluate([*arrays, model.encoder._positional_embedding])
    return model, dtype


def _dimensions(config: Mapping[str, Any], folder: Path) -> ModelDimensions:
    values = {}
    for field in fields(ModelDimensions):
        value = config.get(field.name, config.get(_HF_NAMES[field.name]))
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _broken(folder, f"config.json gives no sound {field.name}")
        values[field.name] = value
    dims = ModelDimensions(**values)
    if dims.n_audio_ctx * 2 != _NUM_FRAMES:
        raise _broken(folder, f"it hears {dims.n_audio_ctx / 50:g} s at a time, not Whisper's 30 s")
    if dims.n_mels not in (80, 128):
        raise _broken(folder, f"it has {dims.n_mels} mel bands, not Whisper's 80 or 128")
    if dims.n_vocab < _FIRST_VOCABULARY:
        raise _broken(folder, f"its vocabulary of {dims.n_vocab} tokens is not Whisper's")
    return dims


def _read_weights(folder: Path) -> Weights:
    """One file of weights, or the parts that an index names; other copies beside it don't count."""
    index = folder / "model.safetensors.index.json"
    names = ("weights.safetensors", "model.safetensors", "weights.npz")
    found = [name for name in names if (folder / name).is_file()][:1]
    if not found and index.is_file():
        table = _read_object(index).get("weight_map")
        found = sorted(set(table.values())) if isinstance(table, dict) else []
    if not found:
        found = sorted(path.name for path in folder.glob("model*.safetensors"))
    if not found:
        raise _broken(folder, "it has neither weights.safetensors nor model.safetensors")
    weights: Weights = {}
    for name in found:
        path = folder / name
        if path.parent != folder or not path.is_file():
            raise _broken(folder, f"{name} is missing")
        loaded = mx.load(str(path))
        assert isinstance(loaded, dict)
        weights.update(loaded)
    return weights


def _plain_names(weights: Weights) -> Weights:
    if not any(".self_attn." in name for name in weights):
        return {name: _layout(name, value) for name, value in weights.items()}
    renamed = {}
    for name, value in weights.items():
        for pattern, word in _HF_PARTS:
            name = re.sub(pattern, word, name)
        renamed[name] = _layout(name, value)
    return renamed


def _layout(name: str, value: mx.array) -> mx.array:
    """MLX has a convolution's kernel before the incoming channels, PyTorch behind them."""
    is_kernel = re.fullmatch(r"encoder\.conv[12]\.weight", name) and value.ndim == 3
    if is_kernel and value.shape[1] != _KERNEL_SIZE and value.shape[2] == _KERNEL_SIZE:
        return value.transpose(0, 2, 1)
    return value


def _alignment_heads(folder: Path, weights: Weights) -> Weights:
    """Which attention heads follow the sound, as generation_config.json has it; else the folder's
    own tensor, else the later half of all."""
    path = folder / "generation_config.json"
    heads = _read_object(path).get("alignment_heads") if path.is_file() else None
    if "alignment_heads" in weights or not isinstance(heads, list) or not heads:
        return {}
    return {"alignment_heads": mx.array(np.array(heads, np.int32))}


def _dtype(weights: Weights) -> mx.Dtype:
    """What the weights are in; on a CPU, where half precision is many times slower, float32."""
    first = weights.get("encoder.conv1.weight")
    halves = (mx.float16, mx.bfloat16)
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    if first is None or first.dtype not in halves or on_cpu:
        return mx.float32
    return first.dtype


def _cast(value: mx.array, dtype: mx.Dtype) -> mx.array:
    return value.astype(dtype) if mx.issubdtype(value.dtype, mx.floating) else value


def _fill(model: Whisper, weights: Weights, folder: Path) -> None:
    expected = dict(tree_flatten(model.parameters()))
    for name, value in expected.items():
        if name == "alignment_heads":
            continue
        if name not in weights:
            raise _broken(folder, f"the weight {name} is missing")
        if weights[name].shape != value.shape:
            raise _broken(
                folder,
                f"the weight {name} has shape {weights[name].shape}, and config.json wants "
                f"{value.shape}",
            )
    known = [(name, value) for name, value in weights.items() if name in expected]
    model.load_weights(known, strict=False)
    layers, heads = model.dims.n_text_layer, model.dims.n_text_head
    for layer, head in np.array(model.alignment_heads).reshape(-1, 2).tolist():
        if not (0 <= layer < layers and 0 <= head < heads):
            raise _broken(folder, f"it has no head {head} in layer {layer} to align words by")


def _read_object(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _broken(path.parent, f"{path.name} can't be read ({error})") from error
    if not isinstance(value, dict):
        raise _broken(path.parent, f"{path.name} holds no object")
    return value


def _broken(folder: Path, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{folder.name} can't be loaded: {reason}.", param="model")
