"""Tiny models whose caches can't be cut at any token, for chats: a sliding window, convolutions,
a recurrent state.

Random weights, and another model's tokenizer and chat template. They write whole words alone, each
a token that its own text is read as again: the answer of a random model would come back in the next
turn as other tokens than those that it was written in, which those of a trained one seldom do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measuring.models import BenchModel, special_ids, write_random_model

CONTEXT_LENGTH = 16384
SLIDING_WINDOW = 128

_SIZES: Mapping[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": CONTEXT_LENGTH,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "dtype": "float32",
}

CHAT_CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "gemma3": {
        **_SIZES,
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "sliding_window": SLIDING_WINDOW,
        "sliding_window_pattern": 3,
        "rope_local_base_freq": 10000.0,
        "query_pre_attn_scalar": 16,
    },
    "LFM2": {
        **_SIZES,
        "architectures": ["Lfm2ForCausalLM"],
        "model_type": "lfm2",
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
    "Mamba": {
        **_SIZES,
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
}


def build_chat_model(kind: str, tokenizer_source: Path, root: Path) -> BenchModel:
    """One of `CHAT_CONFIGS`, with that folder's tokenizer. It ends as its template ends messages,
    but never writes that end."""
    name = f"tiny-{kind.lower()}"
    folder = root / name
    write_random_model(
        folder,
        CHAT_CONFIGS[kind],
        tokenizer_source=tokenizer_source,
        end=_end(tokenizer_source),
        never=_not_words(tokenizer_source),
    )
    return BenchModel(name=name, folder=folder, is_tiny=True)


def _end(folder: Path) -> tuple[int, str]:
    end: str = _settings(folder, "tokenizer_config.json")["eos_token"]
    tokens = _settings(folder, "tokenizer.json")["added_tokens"]
    return next((int(token["id"]), end) for token in tokens if token["content"] == end)


def _settings(folder: Path, name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return value


def _not_words(folder: Path) -> list[int]:
    """All tokens but words with the space before them, of letters alone."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    token_ids = range(int(_settings(folder, "config.json")["vocab_size"]))
    special = set(special_ids(folder))

    def is_word(token_id: int) -> bool:
        text: str = tokenizer.decode([token_id], skip_special_tokens=False)
        is_spaced = text[:1] == " " and text[1:].isascii() and text[1:].isalpha()
        return is_spaced and tokenizer.encode(text, add_special_tokens=False).ids == [token_id]

    found = [i for i in token_ids if i in special or not is_word(i)]
    if len(found) == len(token_ids):
        raise SystemExit(f"{folder}: its tokenizer has no words that begin with a space")
    return found
