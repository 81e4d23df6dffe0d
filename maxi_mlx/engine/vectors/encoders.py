"""Loads the layers of an embedding model or a reranker, and gives the vectors of its tokens.

BERT's kin come from mlx-vlm, which mlx-embeddings brings: its attention is fused, and it has the
heads of cross-encoders. EmbeddingGemma comes from mlx-embeddings, language models from mlx-lm. What
they make of the tokens afterwards is not used: they pool every model the same way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.activations import gelu
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten

from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.engine.loading import Loading, Steps
from maxi_mlx.engine.read_ahead import evaluate_behind

# (tokens, mask, segments) -> (rows, tokens, width). The mask is 1 where a token is, the segments
# tell a pair's two texts apart. Padding is on the right.
Hidden = Callable[[mx.array, mx.array, mx.array | None], mx.array]

_VLM_MODULES: Mapping[str, str] = {
    "bert": "bert",
    "camembert": "xlm_roberta",
    "modernbert": "modernbert",
    "roberta": "xlm_roberta",
    "xlm-roberta": "xlm_roberta",
    "xlm_roberta": "xlm_roberta",
}
# Parts of other uses of the same weights: language modelling, an older head.
_FOREIGN_PARTS = ("lm_head.", "cls.", "decoder.", "pooler.")


@dataclass(frozen=True, slots=True)
class Encoder:
    """``model`` has the layers that ``hidden`` sends tokens through."""

    model: Module
    hidden: Hidden


def load_encoder(loading: Loading, config: Mapping[str, Any]) -> Steps[Encoder]:
    """Raises EngineFailed or a library's own error where the folder isn't what it says."""
    model_type = str(config.get("model_type"))
    if model_type == "gemma3_text" and config.get("use_bidirectional_attention", True):
        return (yield from _embedding_gemma(loading, config))
    if model_type in _VLM_MODULES:
        model = yield from load_vlm(loading, config, class_name="Model")
        takes_segments = model_type == "bert"

        def hidden(tokens: mx.array, mask: mx.array, segments: mx.array | None) -> mx.array:
            more = {"token_type_ids": segments} if takes_segments else {}
            vectors: mx.array = model(tokens, attention_mask=mask, **more).last_hidden_state
            return vectors

        return Encoder(model, hidden)
    inner = inner_model((yield from load_language_layers(loading, has_head=False)))
    # Causal: what is padded on the right is read by nobody.
    return Encoder(inner, lambda tokens, _mask, _segments: inner(tokens))


def load_vlm(loading: Loading, config: Mapping[str, Any], *, class_name: str) -> Steps[Any]:
    """A model of BERT's kin, with mlx-vlm's class of that name."""
    model_type = str(config["model_type"])
    module = yield from _imported(loading, f"mlx_vlm.models.{_VLM_MODULES[model_type]}")
    settings = {**config, "num_labels": 1}
    if model_type == "modernbert":
        settings |= _modernbert_thetas(config)
    model = getattr(module, class_name)(module.ModelConfig.from_dict(settings))
    if model_type == "modernbert":
        # Its own masks are numbers, of which half precision makes infinities, and NaN in padding.
        reach = int(settings.get("local_attention", 128)) // 2
        model._masks = lambda mask, _dtype: masks(mask, reach=reach)
        # Its own GELU is the approximation by tanh; the model was made with the exact one.
        heads = [model.head] if hasattr(model, "head") else []
        for part in (*heads, *(layer.mlp for layer in model.layers)):
            part.act = gelu
    yield from _fill(loading, model, model.sanitize(read_weights(loading.entry.path)), config)
    return model


def _imported(loading: Loading, name: str) -> Steps[Any]:
    """The libraries take seconds the first time."""
    return (yield from loading.elsewhere(partial(importlib.import_module, name)))


def _modernbert_thetas(config: Mapping[str, Any]) -> dict[str, Any]:
    """The newer form of config.json has them by the kind of layer."""
    ropes = config.get("rope_parameters")
    if not isinstance(ropes, dict):
        return {}
    keys = (("full_attention", "global_rope_theta"), ("sliding_attention", "local_rope_theta"))
    return {
        name: ropes[kind]["rope_theta"]
        for kind, name in keys
        if isinstance(ropes.get(kind), dict) and "rope_theta" in ropes[kind]
    }


def masks(mask: mx.array, *, reach: int) -> tuple[mx.array, mx.array]:
    """Who looks at whom, (rows, 1, tokens, tokens): at every token, and at those up to ``reach``
    away. Padding looks at every token, so that no line is without any."""
    is_token = mask.astype(mx.bool_)
    places = mx.arange(mask.shape[1])
    is_near = mx.abs(places[:, None] - places[None, :]) <= reach
    anywhere = mx.broadcast_to(is_token[:, None, None, :], (*mask.shape[:1], 1, *is_near.shape))
    near = anywhere & (is_near[None, None] | ~is_token[:, None, :, None])
    return anywhere, near


def _embedding_gemma(loading: Loading, config: Mapping[str, Any]) -> Steps[Encoder]:
    """mlx-embeddings runs all of its layers without their window, so that they are run here."""
    gemma3_text = yield from _imported(loading, "mlx_embeddings.models.gemma3_text")
    args = gemma3_text.ModelArgs.from_dict(dict(config))
    model = gemma3_text.Model(args)
    model.dense = []  # steps of modules.json, which come after pooling
    tensors = read_weights(loading.entry.path).items()
    weights = {name: array for name, array in tensors if "dense" not in name}
    yield from _fill(loading, model, model.sanitize(weights), config)
    layers, pattern = model.model, args.sliding_window_pattern
    kinds = config.get("layer_types") or [
        "sliding_attention" if (index + 1) % pattern else "full_attention"
        for index in range(args.num_hidden_layers)
    ]
    reach = args.sliding_window // 2

    def hidden(tokens: mx.array, mask: mx.array, _segments: mx.array | None) -> mx.array:
        vectors = layers.embed_tokens(tokens)
        vectors = vectors * mx.array(args.hidden_size**0.5, vectors.dtype)
        everywhere, near = masks(mask, reach=reach)
        for kind, layer in zip(kinds, layers.layers, strict=True):
            vectors = layer(vectors, near if kind == "sliding_attention" else everywhere, None)
        normed: mx.array = layers.norm(vectors)
        return normed

    return Encoder(layers, hidden)


def load_language_layers(loading: Loading, *, has_head: bool) -> Steps[Any]:
    """A language model by mlx-lm, with its head or without one; embedding models are published
    without, and without the first part of their tensors' names."""
    from mlx_lm.utils import _get_classes, load_model

    def classes(config: dict[str, Any]) -> tuple[Any, Any]:
        model_class, arguments_class = _get_classes(config)

        class Layers(model_class):  # type: ignore[misc, valid-type]
            def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
                weights = _named_as(self, weights, has_head=has_head)
                return super().sanitize(weights) if hasattr(model_class, "sanitize") else weights

        return Layers, arguments_class

    # With tied weights mlx-lm makes no head.
    changes = {} if has_head else {"tie_word_embeddings": True}
    folder = loading.entry.path
    model = load_model(folder, lazy=True, model_config=changes, get_model_classes=classes)[0]
    yield from _evaluate(loading, model)
    return model


def _named_as(model: Any, weights: dict[str, mx.array], *, has_head: bool) -> dict[str, mx.array]:
    if not has_head:
        weights = {name: array for name, array in weights.items() if "lm_head." not in name}
    if "model" in model and not any(name.startswith("model.") for name in weights):
        return {
            name if name.startswith("lm_head.") else f"model.{name}": array
            for name, array in weights.items()
        }
    return weights


def inner_model(model: Any) -> Any:
    """The layers of a language model, up to the last norm."""
    for name in ("language_model", "model", "transformer", "backbone"):
        inner = getattr(model, name, None)
        if inner is not None:
            return inner_model(inner) if name == "language_model" else inner
    raise EngineFailed(f"mlx-lm's {type(model).__module__} has no layers that could be asked")


def read_weights(folder: Path) -> dict[str, mx.array]:
    weights: dict[str, mx.array] = {}
    for file in _weight_files(folder):
        weights.update(load_tensors(file))
    return weights


def _weight_files(folder: Path) -> list[Path]:
    """All of model*.safetensors, or every such file where none has that name."""
    files = sorted(folder.glob("*.safetensors"))
    return [file for file in files if file.name.startswith("model")] or files


def load_tensors(file: Path) -> dict[str, mx.array]:
    return cast(dict[str, mx.array], mx.load(str(file)))


def _fill(
    loading: Loading, model: Any, weights: dict[str, mx.array], config: Mapping[str, Any]
) -> Steps[None]:
    """Loads the weights, all of them and no others but heads that are not asked."""
    quantization = config.get("quantization")
    if isinstance(quantization, dict):

        def form(path: str, module: Any) -> Any:
            if path in quantization:
                return quantization[path]
            return hasattr(module, "to_quantized") and f"{path}.scales" in weights

        quantize(
            model,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            mode=quantization.get("mode", "affine"),
            class_predicate=form,
        )
    own = {name.partition(".")[0] + "." for name in model}
    foreign = tuple(part for part in _FOREIGN_PARTS if part not in own)
    kept = [(name, array) for name, array in weights.items() if not name.startswith(foreign)]
    model.load_weights(kept)
    yield from _evaluate(loading, model)
    model.eval()


def _evaluate(loading: Loading, model: Any) -> Steps[None]:
    files = _weight_files(loading.entry.path)
    yield from evaluate_behind(loading, dict(tree_flatten(model.parameters())), files)
