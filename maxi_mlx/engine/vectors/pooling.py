"""One vector of a text's many: pooling and the layers after it, in single precision.

Sources: sentence-transformers' Pooling, Dense and Normalize modules, whose files these read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.activations import gelu, relu, silu

from maxi_mlx.catalog.embedding_form import NORMALIZE
from maxi_mlx.catalog.model_files import BrokenFile, read_object
from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.models import Pooling
from maxi_mlx.engine.vectors.encoders import load_tensors

Step = Callable[[mx.array], mx.array]

_ACTIVATIONS: Mapping[str, Step] = {
    "GELU": gelu,
    "Identity": lambda vectors: vectors,
    "ReLU": relu,
    "SiLU": silu,
    "Sigmoid": mx.sigmoid,
    "Tanh": mx.tanh,
}
_SHORTEST = 1e-12  # as torch normalises


def pool(hidden: mx.array, starts: mx.array, ends: mx.array, modes: Sequence[Pooling]) -> mx.array:
    """(rows, tokens, width) to (rows, width · modes). A row's tokens are those from its start up
    to its end; what is behind is padding, and counts for nothing."""
    hidden = hidden.astype(mx.float32)
    places = mx.arange(hidden.shape[1])[None, :]
    counts = ((places >= starts[:, None]) & (places < ends[:, None])).astype(mx.float32)
    rows = mx.arange(hidden.shape[0])
    pooled = []
    for mode in modes:
        match mode:
            case "cls":
                pooled.append(hidden[rows, starts])
            case "lasttoken":
                pooled.append(hidden[rows, ends - 1])
            case "max":
                masked = mx.where(counts[..., None] > 0, hidden, -mx.inf)
                pooled.append(masked.max(axis=1))
            case "mean":
                pooled.append(_weighted(hidden, counts))
            case "weightedmean":
                pooled.append(_weighted(hidden, counts * (places + 1)))
            case "mean_sqrt_len_tokens":
                number = counts.sum(axis=1, keepdims=True)
                pooled.append(_weighted(hidden, counts) * mx.sqrt(number))
    return mx.concatenate(pooled, axis=-1)


def _weighted(hidden: mx.array, weights: mx.array) -> mx.array:
    # No product of matrices: on some GPUs those are of less than single precision.
    return (hidden * weights[..., None]).sum(axis=1) / weights.sum(axis=1, keepdims=True)


def normalize(vectors: mx.array) -> mx.array:
    lengths = mx.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / mx.maximum(lengths, _SHORTEST)


def read_steps(folder: Path, names: Sequence[str]) -> list[Step]:
    """What comes after pooling, in order: each a dense layer's folder, or ``normalize``."""
    return [normalize if name == NORMALIZE else _dense(folder / name) for name in names]


def _dense(folder: Path) -> Step:
    try:
        config = read_object(folder / "config.json")
    except BrokenFile as error:
        raise EngineFailed(f"{folder.name}/config.json {error}") from error
    weights = load_tensors(folder / "model.safetensors")
    weight = weights["linear.weight"].astype(mx.float32).T
    bias = weights.get("linear.bias")
    residual = weights.get("residual.weight")
    name = str(config.get("activation_function", "torch.nn.Tanh")).rpartition(".")[2]
    activation = _ACTIVATIONS.get(name)
    if activation is None:
        raise EngineFailed(f"{folder.name} has the activation {name}, which isn't known here.")
    activate: Step = activation
    mx.eval(weight, bias, residual)

    def step(vectors: mx.array) -> mx.array:
        linear = vectors @ weight
        result = activate(linear if bias is None else linear + bias)
        if config.get("use_residual"):
            result = result + (vectors if residual is None else vectors @ residual.T)
        return result

    return step


def read_config(folder: Path) -> dict[str, Any]:
    try:
        return read_object(folder / "config.json")
    except BrokenFile as error:
        raise EngineFailed(f"config.json {error}") from error
