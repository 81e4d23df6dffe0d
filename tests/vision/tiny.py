"""Tiny random models that see, in the folders' form of the hub's. The weights have mlx-vlm's names.

build(folder, "idefics3")    SmolVLM's family: an image in crops of 32 × 32, four tokens a crop
build(folder, "gemma3")      an image as one square of 32 × 32, four tokens; layers with a window
build(folder, "gemma4")      an image in up to 70 tokens; layers that share keys
build(folder, "mistral3")    an image of up to 64 × 64, a token for 16 × 16, row by row
build(folder, "qwen2_5_vl")  an image near its own size, a token for 16 × 16; places in it
build(folder, "qwen3_vl")    the same, and vectors that come to the first layer
build(folder, "qwen3_5")     the same on layers with states
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.models.corpus import CORPUS
from tests.models.families import CHATML_TOKENS, SIZES, family_named
from tests.models.folder import LOGITS_SPREAD, prepare_device, write_json, write_tokenizer
from tests.models.vocabulary import byte_level_tokenizer

SIDE = 32
_PLACES = tuple(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5))
_VOCABULARY_SIZE = 560
_VISION = {
    "hidden_size": 32,
    "image_size": SIDE,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_channels": 3,
    "num_hidden_layers": 2,
    "patch_size": 8,
}

# SmolVLM's way: content comes in parts, and a turn that begins with an image has no space before.
_SMOLVLM = """\
<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}\
{% if message['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}\
{% for part in message['content'] %}\
{% if part['type'] == 'text' %}{{ part['text'] }}\
{% elif part['type'] == 'image' %}<image>{% endif %}\
{% endfor %}<end_of_utterance>
{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"""

# Gemma's way: text or parts, strict turns.
_GEMMA = """\
{{ bos_token }}{% for message in messages %}<start_of_turn>\
{{ 'model' if message.role == 'assistant' else message.role }}
{% if message.content is string %}{{ message.content | trim }}{% else %}\
{% for part in message.content %}\
{% if part.type == 'image' %}<start_of_image>{% else %}{{ part.text | trim }}{% endif %}\
{% endfor %}{% endif %}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}"""

_MISTRAL = """\
{{ bos_token }}{% for message in messages %}{% if message.role == 'assistant' %}\
{{ message.content }}{{ eos_token }}{% else %}[INST]{% if message.content is string %}\
{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'image' %}[IMG]{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}\
[/INST]{% endif %}{% endfor %}"""

_QWEN = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}\
{% for part in message.content %}\
{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}\
{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    tokens: tuple[str, ...]
    end: str
    beginning: str
    image: str
    template: str
    config: Mapping[str, Any]
    preprocessor: Mapping[str, Any]


_QWEN_VISION = {
    "depth": 2,
    "hidden_size": 32,
    "in_channels": 3,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": SIZES["hidden_size"],
    "patch_size": 8,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}


def _qwen(model_type: str, *, text: Mapping[str, Any], vision: Mapping[str, Any]) -> Family:
    return Family(
        tokens=(*CHATML_TOKENS, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"),
        end="<|im_end|>",
        beginning="<|endoftext|>",
        image="<|image_pad|>",
        template=_QWEN,
        config={
            "architectures": ["AnyForConditionalGeneration"],
            "model_type": model_type,
            "text_config": {**SIZES, "vocab_size": _VOCABULARY_SIZE, **text},
            "vision_config": {**_QWEN_VISION, "model_type": model_type, **vision},
        },
        preprocessor={
            "merge_size": 2,
            "patch_size": 8,
            "resample": 3,
            "size": {"shortest_edge": 16 * 16 * 4, "longest_edge": 16 * 16 * 30},
            "temporal_patch_size": 2,
        },
    )


FAMILIES: Mapping[str, Family] = {
    "idefics3": Family(
        tokens=(
            *("<|endoftext|>", "<|im_start|>", "<end_of_utterance>", "<image>"),
            *("<fake_token_around_image>", "<global-img>", *_PLACES),
        ),
        end="<end_of_utterance>",
        beginning="<|im_start|>",
        image="<image>",
        template=_SMOLVLM,
        config={
            "architectures": ["Idefics3ForConditionalGeneration"],
            "model_type": "idefics3",
            "scale_factor": 2,
            "text_config": {**SIZES, "model_type": "llama", "vocab_size": _VOCABULARY_SIZE},
            "vision_config": {**_VISION, "model_type": "idefics3_vision"},
        },
        preprocessor={
            "do_image_splitting": True,
            "max_image_size": {"longest_edge": SIDE},
            "resample": 1,
            "size": {"longest_edge": 3 * SIDE},
        },
    ),
    "gemma3": Family(
        tokens=(
            *("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
            *("<start_of_image>", "<image_soft_token>", "<end_of_image>"),
        ),
        end="<end_of_turn>",
        beginning="<bos>",
        image="<image_soft_token>",
        template=_GEMMA,
        config={
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "mm_tokens_per_image": 4,
            "hidden_size": SIZES["hidden_size"],
            "vocab_size": _VOCABULARY_SIZE,
            "text_config": {
                **SIZES,
                "model_type": "gemma3_text",
                "mm_tokens_per_image": 4,
                "num_hidden_layers": 3,
                "query_pre_attn_scalar": 16,
                "rope_local_base_freq": 10000.0,
                "rope_theta": 1_000_000.0,
                "sliding_window": 16,
                "sliding_window_pattern": 3,
                "vocab_size": _VOCABULARY_SIZE,
            },
            "vision_config": {**_VISION, "model_type": "siglip_vision_model"},
        },
        preprocessor={"resample": 2, "size": {"height": SIDE, "width": SIDE}},
    ),
    "gemma4": Family(
        tokens=(
            *("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
            *("<|image>", "<|image|>", "<image|>"),
        ),
        end="<end_of_turn>",
        beginning="<bos>",
        image="<|image|>",
        template=_GEMMA.replace("<start_of_image>", "<|image|>"),
        config={
            "architectures": ["Gemma4ForConditionalGeneration"],
            "model_type": "gemma4",
            "vocab_size": _VOCABULARY_SIZE,
            "text_config": {
                **{name: value for name, value in SIZES.items() if name != "rope_theta"},
                "global_head_dim": 16,
                "hidden_size_per_layer_input": 8,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "model_type": "gemma4_text",
                "num_hidden_layers": 4,
                "num_kv_shared_layers": 2,
                "sliding_window": 16,
                "tie_word_embeddings": True,
                "rope_parameters": {
                    "full_attention": {
                        "partial_rotary_factor": 0.25,
                        "rope_theta": 1_000_000.0,
                        "rope_type": "proportional",
                    },
                    "sliding_attention": {"rope_theta": 10_000.0, "rope_type": "default"},
                },
                "use_bidirectional_attention": "vision",
                "use_double_wide_mlp": False,
                "vocab_size": _VOCABULARY_SIZE,
                "vocab_size_per_layer_input": _VOCABULARY_SIZE,
            },
            "vision_config": {
                **_VISION,
                "default_output_length": 12,
                "global_head_dim": 16,
                "head_dim": 16,
                "model_type": "gemma4_vision",
                "num_key_value_heads": 2,
                "pooling_kernel_size": 2,
                "position_embedding_size": 64,
            },
        },
        preprocessor={
            "do_normalize": False,
            "max_soft_tokens": 70,
            "patch_size": 8,
            "pooling_kernel_size": 2,
            "resample": 3,
        },
    ),
    "mistral3": Family(
        tokens=("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"),
        end="</s>",
        beginning="<s>",
        image="[IMG]",
        template=_MISTRAL,
        config={
            "architectures": ["Mistral3ForConditionalGeneration"],
            "model_type": "mistral3",
            "multimodal_projector_bias": False,
            "spatial_merge_size": 2,
            "text_config": {
                **SIZES,
                "model_type": "mistral",
                "rope_parameters": {"rope_theta": 10_000.0, "rope_type": "default"},
                "vocab_size": _VOCABULARY_SIZE,
            },
            "vision_config": {**_VISION, "head_dim": 16, "image_size": 64, "model_type": "pixtral"},
            "vision_feature_layer": -1,
        },
        preprocessor={
            "patch_size": {"height": 16, "width": 16},
            "resample": 3,
            "size": {"longest_edge": 64},
        },
    ),
    "qwen2_5_vl": _qwen(
        "qwen2_5_vl",
        text={
            "model_type": "qwen2_5_vl_text",
            "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        },
        vision={"fullatt_block_indexes": [1], "window_size": 32},
    ),
    "qwen3_vl": _qwen(
        "qwen3_vl",
        text={
            "model_type": "qwen3_vl_text",
            "rope_scaling": {
                "mrope_interleaved": True,
                "mrope_section": [4, 2, 2],
                "rope_type": "default",
            },
        },
        vision={"deepstack_visual_indexes": [0], "num_position_embeddings": 16},
    ),
    "qwen3_5": _qwen(
        "qwen3_5",
        text=family_named("qwen3_5").config["text_config"] | {"vocab_size": _VOCABULARY_SIZE},
        vision={"deepstack_visual_indexes": [], "num_position_embeddings": 16},
    ),
}


def build(folder: Path, name: str) -> Path:
    family = FAMILIES[name]
    folder.mkdir(parents=True)
    tokenizer = byte_level_tokenizer(CORPUS, special_tokens=family.tokens)
    write_tokenizer(
        folder,
        tokenizer,
        template=family.template,
        end=family.end,
        beginning=family.beginning,
        context_length=SIZES["max_position_embeddings"],
    )
    image_id, end_id = (tokenizer.token_to_id(token) for token in (family.image, family.end))
    config = {
        **family.config,
        "dtype": "float32",
        "eos_token_id": end_id,
        "image_token_id": image_id,
        "image_token_index": image_id,
        # mlx-vlm counts a Qwen's positions by it.
        "vision_start_token_id": tokenizer.token_to_id("<|vision_start|>"),
    }
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {"eos_token_id": end_id, "do_sample": False})
    scaling: dict[str, Any] = {"rescale_factor": 1 / 255}
    if family.preprocessor.get("do_normalize", True):
        scaling |= {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    write_json(folder / "preprocessor_config.json", {**family.preprocessor, **scaling})
    _write_weights(folder, config, num_rare=len(family.tokens))
    return folder


def _write_weights(folder: Path, config: Mapping[str, Any], *, num_rare: int) -> None:
    prepare_device()
    import mlx.core as mx
    import numpy as np
    from mlx.utils import tree_flatten

    generator = np.random.default_rng(0)
    weights: dict[str, mx.array] = {}
    for name, value in tree_flatten(vlm_model(config).parameters()):
        values = generator.standard_normal(value.shape).astype(np.float32)
        if name.endswith("bias"):
            values *= 0.1
        elif value.ndim == 1:
            # Where the output is the input's table, a token would be followed by itself.
            is_tied = config["model_type"] == "gemma4" and ".post_" in name
            values = np.full_like(values, 6 if is_tied else 1)
        else:
            values /= np.sqrt(np.prod(value.shape[1:]))
        if name.startswith("language_model") and ("embed_tokens" in name or "lm_head" in name):
            values *= LOGITS_SPREAD
            values[:num_rare] *= 0.02
        weights[name] = mx.array(values)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})


def vlm_model(config: Mapping[str, Any]) -> Any:
    """mlx-vlm's own model of such a config, with weights of its own."""
    import importlib

    package = importlib.import_module(f"mlx_vlm.models.{config['model_type']}")
    settings = package.ModelConfig.from_dict(copy.deepcopy(dict(config)))
    settings.text_config = package.TextConfig.from_dict(dict(config["text_config"]))
    settings.vision_config = package.VisionConfig.from_dict(dict(config["vision_config"]))
    return package.Model(settings)


def with_hub_names(source: Path, folder: Path) -> Path:
    """A copy of the Idefics 3 folder as transformers writes SmolVLM2's."""
    import mlx.core as mx

    shutil.copytree(source, folder)
    config = json.loads((source / "config.json").read_text())
    write_json(folder / "config.json", {**config, "model_type": "smolvlm"})
    weights = {}
    for name, value in mx.load(str(source / "model.safetensors")).items():
        name = name.removeprefix("language_model.")
        if name.startswith("vision_model.embeddings.patch"):
            value = value.transpose(0, 3, 1, 2) if value.ndim == 4 else value
        if not name.startswith(("vision_model.", "connector.", "lm_head.")):
            name = f"text_model.{name}"
        weights[name if name.startswith("lm_head.") else f"model.{name}"] = value
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return folder


QUANTIZATION = {"group_size": 32, "bits": 8}


def quantized(source: Path, folder: Path) -> Path:
    """A copy in 8 bits, as mlx-vlm converts: eyes too."""
    import mlx.core as mx
    from mlx.nn.layers.quantized import quantize
    from mlx.utils import tree_flatten

    shutil.copytree(source, folder)
    config = json.loads((source / "config.json").read_text())
    model = vlm_model(config)
    model.load_weights(str(source / "model.safetensors"))
    quantize(model, **QUANTIZATION)
    write_json(folder / "config.json", {**config, "quantization": QUANTIZATION})
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return folder
