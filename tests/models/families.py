"""The tiny random models: one of every cache class that mlx-lm has, and of the tokenizer forms.

name        cache of a row               tokenizer     beside
llama       KVCache                      byte level    begins with a token of its own
llama-4bit  KVCache                      byte level    affine 4-bit, groups of 32
llama-spm   KVCache                      Llama 2 form  strips the leading space
qwen2       KVCache                      byte level    fill-in-the-middle tokens, two ends
qwen3       KVCache                      byte level    tools, thoughts, a padded vocabulary
gemma3      RotatingKVCache and KVCache  Gemma form    a window of 16, alternating turns
lfm2        ArraysCache and KVCache      byte level    convolutions
qwen3_5     ArraysCache and KVCache      byte level    gated delta rule
mamba2      ArraysCache                  byte level    recurrent, no KV at all
llama4      ChunkedKVCache and KVCache   byte level    can't be batched
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.models import templates

CONTEXT_LENGTH = 512
SLIDING_WINDOW = 16
PADDED_VOCABULARY_SIZE = 544  # as published models have it: more rows than tokens

TokenizerForm = Literal["byte level", "llama 2", "gemma"]

CHATML_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOOL_TOKENS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
MIDDLE_TOKENS = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")

SIZES: Mapping[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "vocab_size": 512,
    "max_position_embeddings": CONTEXT_LENGTH,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a tiny model's folder is made from. ``tokens`` are its special tokens, in id order."""

    name: str
    config: Mapping[str, Any]
    tokens: tuple[str, ...] = CHATML_TOKENS
    ends: tuple[str, ...] = ("<|im_end|>",)  # the first is config.json's
    beginning: str | None = None
    # Tags that a reader of the answer must see: they are tokens of their own, but not "special".
    tags: tuple[str, ...] = ()
    tokenizer: TokenizerForm = "byte level"
    template: str = templates.CHATML
    quantization: Mapping[str, Any] | None = None


LLAMA: Mapping[str, Any] = {
    **SIZES,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
}

_ALL = (
    Family(
        name="llama",
        config=LLAMA,
        tokens=("<|begin_of_text|>", *CHATML_TOKENS),
        beginning="<|begin_of_text|>",
        template=templates.CHATML_WITH_BEGINNING,
    ),
    Family(
        name="llama-4bit",
        config=LLAMA,
        quantization={"group_size": 32, "bits": 4, "mode": "affine"},
    ),
    Family(
        name="llama-spm",
        config=LLAMA,
        tokens=("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"),
        beginning="<s>",
        tokenizer="llama 2",
        template=templates.CHATML_WITH_BEGINNING,
    ),
    Family(
        name="qwen2",
        config={**SIZES, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
        tokens=(*CHATML_TOKENS, *MIDDLE_TOKENS),
        ends=("<|im_end|>", "<|endoftext|>"),
    ),
    Family(
        name="qwen3",
        config={
            **SIZES,
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": PADDED_VOCABULARY_SIZE,
        },
        tags=TOOL_TOKENS,
        template=templates.CHATML_WITH_TOOLS,
    ),
    Family(
        name="gemma3",
        config={
            **SIZES,
            "architectures": ["Gemma3ForCausalLM"],
            "model_type": "gemma3_text",
            "num_hidden_layers": 3,
            "sliding_window": SLIDING_WINDOW,
            "sliding_window_pattern": 3,
            "rope_local_base_freq": 10000.0,
            "query_pre_attn_scalar": 16,
        },
        tokens=("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"),
        ends=("<end_of_turn>",),
        beginning="<bos>",
        tokenizer="gemma",
        template=templates.TURNS,
    ),
    Family(
        name="lfm2",
        config={
            **SIZES,
            "architectures": ["Lfm2ForCausalLM"],
            "model_type": "lfm2",
            "num_hidden_layers": 3,
            "norm_eps": 1e-6,
            "conv_bias": False,
            "conv_L_cache": 3,
            "block_dim": 64,
            "block_ff_dim": 128,
            "block_multiple_of": 32,
            "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": False,
            "layer_types": ["conv", "full_attention", "conv"],
            "tie_word_embeddings": True,
        },
    ),
    Family(
        name="qwen3_5",
        config={
            "architectures": ["Qwen3_5ForCausalLM"],
            "model_type": "qwen3_5",
            "tie_word_embeddings": False,
            "text_config": {
                **SIZES,
                "vocab_size": PADDED_VOCABULARY_SIZE,
                "model_type": "qwen3_5_text",
                "full_attention_interval": 2,
                "linear_num_value_heads": 4,
                "linear_num_key_heads": 2,
                "linear_key_head_dim": 32,
                "linear_value_head_dim": 16,
                "linear_conv_kernel_dim": 4,
                "rope_parameters": {
                    "type": "default",
                    "mrope_section": [1, 1, 0],
                    "rope_theta": 10000.0,
                    "partial_rotary_factor": 0.25,
                },
            },
        },
        tags=TOOL_TOKENS,
        template=templates.CHATML_WITH_TOOLS,
    ),
    Family(
        name="mamba2",
        config={
            **SIZES,
            "architectures": ["Mamba2ForCausalLM"],
            "model_type": "mamba2",
            "num_heads": 8,
            "state_size": 16,
            "layer_norm_epsilon": 1e-6,
            "conv_kernel": 4,
            "n_groups": 1,
            "use_bias": False,
            "use_conv_bias": True,
            "time_step_limit": [0.0, 100.0],
            "time_step_rank": "auto",
        },
    ),
    Family(
        name="llama4",
        config={
            "architectures": ["Llama4ForConditionalGeneration"],
            "model_type": "llama4",
            "text_config": {
                **SIZES,
                "model_type": "llama4_text",
                "num_hidden_layers": 4,
                "attention_bias": False,
                "attention_chunk_size": 32,
                "interleave_moe_layer_step": 2,
                "intermediate_size_mlp": 128,
                "num_experts_per_tok": 1,
                "num_local_experts": 2,
                "rope_scaling": None,
                "use_qk_norm": True,
            },
        },
    ),
)

FAMILIES: tuple[str, ...] = tuple(family.name for family in _ALL)


def family_named(name: str) -> Family:
    for family in _ALL:
        if family.name == name:
            return family
    raise KeyError(f"no family {name!r}; there are {', '.join(FAMILIES)}")
