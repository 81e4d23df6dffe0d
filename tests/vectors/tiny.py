"""Tiny random embedding models and rerankers as folders, one of each family that is served.

Their weights come from numpy's generator, so that what other libraries make of them can be pinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.models.corpus import CORPUS
from tests.models.folder import write_json
from tests.models.vocabulary import byte_level_tokenizer

WIDTH, INNER, LAYERS, HEADS = 32, 48, 4, 4
NUM_IDS, CONTEXT_LENGTH = 512, 128

DOCUMENTS = ("Paris is the capital.", "a map", "ships that passed in the night " * 4)

Shapes = dict[str, tuple[int, ...]]

SIZES: Mapping[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "vocab_size": NUM_IDS,
    "max_position_embeddings": CONTEXT_LENGTH,
    "pad_token_id": 0,
}
# fmt: off
CONFIGS: Mapping[str, dict[str, Any]] = {
    "bert": {
        **SIZES, "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu",
        "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    },
    "xlm-roberta": {
        **SIZES, "model_type": "xlm-roberta", "architectures": ["XLMRobertaModel"],
        "hidden_act": "gelu", "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1,
    },
    "modernbert": {
        **SIZES, "model_type": "modernbert", "architectures": ["ModernBertModel"],
        "local_attention": 8, "global_attn_every_n_layers": 2, "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0, "norm_eps": 1e-5, "cls_token_id": 1, "sep_token_id": 2,
        "bos_token_id": 1, "eos_token_id": 2,
    },
    "gemma3_text": {
        **SIZES, "model_type": "gemma3_text", "architectures": ["Gemma3TextModel"], "head_dim": 8,
        "num_key_value_heads": 2, "query_pre_attn_scalar": 8, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window": 8,
        "_sliding_window_pattern": 2, "sliding_window_pattern": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "use_bidirectional_attention": True, "hidden_activation": "gelu_pytorch_tanh",
    },
    "qwen3": {
        **SIZES, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 8,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
    },
}
# fmt: on
POOLINGS = {
    "bert": "cls",
    "xlm-roberta": "mean",
    "modernbert": "cls",
    "gemma3_text": "mean",
    "qwen3": "lasttoken",
}
CLASSIFIERS = {
    "bert": "BertForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "modernbert": "ModernBertForSequenceClassification",
}


def rows() -> list[list[int]]:
    """Token ids to embed: shorter and longer than a window, and a row alone."""
    generator = np.random.default_rng(7)
    return [generator.integers(4, NUM_IDS, count).tolist() for count in (1, 2, 5, 9, 17, 40, 64)]


def build(folder: Path, family: str, *, files: bool = True, **changes: Any) -> Path:
    """An embedding model. ``files``: with what sentence-transformers writes beside it."""
    config = {**CONFIGS[family], **changes, "torch_dtype": "float32"}
    _write(folder, config, _shapes(family), seed=1)
    if files:
        _write_modules(folder, family)
    return folder


def build_reranker(folder: Path, family: str) -> Path:
    """A cross-encoder, with the names of its tensors as they are published."""
    labels = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    config = {**CONFIGS[family], "architectures": [CLASSIFIERS[family]], **labels}
    part = {"bert": "bert.", "xlm-roberta": "roberta.", "modernbert": "model."}[family]
    shapes = {f"{part}{name}": shape for name, shape in _shapes(family).items()}
    if family == "bert":
        shapes |= _linear("classifier", 1, WIDTH)
    elif family == "xlm-roberta":
        shapes = {name: shape for name, shape in shapes.items() if "pooler" not in name}
        shapes |= _linear("classifier.dense", WIDTH, WIDTH) | _linear(
            "classifier.out_proj", 1, WIDTH
        )
    else:
        shapes |= {"head.dense.weight": (WIDTH, WIDTH), "head.norm.weight": (WIDTH,)}
        shapes |= _linear("classifier", 1, WIDTH)
    _write(folder, config, shapes, seed=2)
    return folder


def _write(folder: Path, config: dict[str, Any], shapes: Shapes, *, seed: int) -> None:
    folder.mkdir(parents=True)
    write_json(folder / "config.json", config)
    _save(folder / "model.safetensors", shapes, seed=seed)
    _write_tokenizer(folder, config["model_type"], pad_id=config["pad_token_id"])


def _save(path: Path, shapes: Shapes, *, seed: int) -> None:
    from safetensors.numpy import save_file

    generator = np.random.default_rng(seed)
    save_file({name: _values(name, shape, generator) for name, shape in shapes.items()}, path)


def _values(
    name: str, shape: tuple[int, ...], generator: np.random.Generator
) -> NDArray[np.float32]:
    values = generator.standard_normal(shape).astype(np.float32)
    if len(shape) > 1:
        return np.asarray(values / np.sqrt(shape[-1]) * (3 if "embed" in name else 1), np.float32)
    return np.asarray(0.1 * values + (0 if name.endswith("bias") else 1), np.float32)


def _write_tokenizer(folder: Path, family: str, *, pad_id: int) -> None:
    from tokenizers import processors

    ends_alone = family == "qwen3"
    special = ["<cls>", "<sep>", "<mask>"]
    special.insert(pad_id, "<pad>")
    tokenizer = byte_level_tokenizer(CORPUS, special_tokens=special)
    marks = [("<cls>", special.index("<cls>")), ("<sep>", special.index("<sep>"))]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <sep>" if ends_alone else "<cls> $A <sep>",
        pair="$A <sep> $B <sep>" if ends_alone else "<cls> $A <sep> $B:1 <sep>:1",
        special_tokens=marks[1:] if ends_alone else marks,
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "cls_token": "<cls>",
        "sep_token": "<sep>",
        "model_max_length": CONTEXT_LENGTH,
        "model_input_names": ["input_ids", "attention_mask"]
        + (["token_type_ids"] if family == "bert" else []),
    }
    write_json(folder / "tokenizer_config.json", settings)


def _write_modules(folder: Path, family: str) -> None:
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    if family == "gemma3_text":
        kinds += [("2_Dense", "Dense"), ("3_Dense", "Dense")]
    kinds.append((f"{len(kinds)}_Normalize", "Normalize"))
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (path, kind) in enumerate(kinds)
    ]
    write_list(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": WIDTH, "pooling_mode": POOLINGS[family]}
    write_json(folder / "1_Pooling" / "config.json", pooling)
    for index, (size, activation) in enumerate(((24, "Identity"), (16, "Tanh"))):
        if family == "gemma3_text":
            before = (WIDTH, 24)[index]
            _write_dense(folder / f"{index + 2}_Dense", before, size, activation, seed=3 + index)


def _write_dense(folder: Path, before: int, size: int, activation: str, *, seed: int) -> None:
    folder.mkdir()
    module = "linear.Identity" if activation == "Identity" else "activation.Tanh"
    config = {
        "in_features": before,
        "out_features": size,
        "bias": True,
        "activation_function": f"torch.nn.modules.{module}",
    }
    write_json(folder / "config.json", config)
    _save(folder / "model.safetensors", _linear("linear", size, before), seed=seed)


def write_list(path: Path, value: list[Any]) -> None:
    import json

    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _linear(name: str, out: int, into: int) -> Shapes:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def _norm(name: str) -> Shapes:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def _shapes(family: str) -> Shapes:
    if family in ("bert", "xlm-roberta"):
        return _bert_shapes(num_types=CONFIGS[family]["type_vocab_size"])
    if family == "modernbert":
        return _modernbert_shapes()
    return _decoder_shapes(is_gemma=family == "gemma3_text")


def _bert_shapes(*, num_types: int) -> Shapes:
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (NUM_IDS, WIDTH),
        "embeddings.position_embeddings.weight": (CONTEXT_LENGTH, WIDTH),
        "embeddings.token_type_embeddings.weight": (num_types, WIDTH),
        **_norm("embeddings.LayerNorm"),
        **_linear("pooler.dense", WIDTH, WIDTH),
    }
    for index in range(LAYERS):
        layer = f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            shapes |= _linear(f"{layer}.attention.self.{part}", WIDTH, WIDTH)
        shapes |= _linear(f"{layer}.attention.output.dense", WIDTH, WIDTH)
        shapes |= _norm(f"{layer}.attention.output.LayerNorm")
        shapes |= _linear(f"{layer}.intermediate.dense", INNER, WIDTH)
        shapes |= _linear(f"{layer}.output.dense", WIDTH, INNER)
        shapes |= _norm(f"{layer}.output.LayerNorm")
    return shapes


def _modernbert_shapes() -> Shapes:
    shapes: Shapes = {
        "embeddings.tok_embeddings.weight": (NUM_IDS, WIDTH),
        "embeddings.norm.weight": (WIDTH,),
        "final_norm.weight": (WIDTH,),
    }
    for index in range(LAYERS):
        layer = f"layers.{index}"
        if index:
            shapes[f"{layer}.attn_norm.weight"] = (WIDTH,)
        shapes[f"{layer}.attn.Wqkv.weight"] = (3 * WIDTH, WIDTH)
        shapes[f"{layer}.attn.Wo.weight"] = (WIDTH, WIDTH)
        shapes[f"{layer}.mlp_norm.weight"] = (WIDTH,)
        shapes[f"{layer}.mlp.Wi.weight"] = (2 * INNER, WIDTH)
        shapes[f"{layer}.mlp.Wo.weight"] = (WIDTH, INNER)
    return shapes


def _decoder_shapes(*, is_gemma: bool) -> Shapes:
    """As embedding models are published: without ``model.`` before the names, and no head."""
    head_size, kv_width = 8, 16
    shapes: Shapes = {"embed_tokens.weight": (NUM_IDS, WIDTH), "norm.weight": (WIDTH,)}
    norms = ["input_layernorm", "post_attention_layernorm"]
    if is_gemma:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for index in range(LAYERS):
        layer = f"layers.{index}"
        shapes |= {f"{layer}.{norm}.weight": (WIDTH,) for norm in norms}
        attention = f"{layer}.self_attn"
        shapes[f"{attention}.q_proj.weight"] = (HEADS * head_size, WIDTH)
        shapes[f"{attention}.k_proj.weight"] = (kv_width, WIDTH)
        shapes[f"{attention}.v_proj.weight"] = (kv_width, WIDTH)
        shapes[f"{attention}.o_proj.weight"] = (WIDTH, HEADS * head_size)
        shapes |= {f"{attention}.{norm}.weight": (head_size,) for norm in ("q_norm", "k_norm")}
        shapes[f"{layer}.mlp.gate_proj.weight"] = (INNER, WIDTH)
        shapes[f"{layer}.mlp.up_proj.weight"] = (INNER, WIDTH)
        shapes[f"{layer}.mlp.down_proj.weight"] = (WIDTH, INNER)
    return shapes
