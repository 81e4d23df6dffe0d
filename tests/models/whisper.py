"""A tiny Whisper model that says what a script has, whatever it hears; made, not trained.

Its attention is cut off, so that each token decides alone which one comes next: the script is a
table from token to token. Everything around it is Whisper's own, vocabulary and times included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Form = Literal["mlx-whisper", "Hugging Face"]
Weights = dict[str, NDArray[Any]]

NUM_TOKENS = {"english": 51_864, "multilingual": 51_865}
_WIDTH = 32
_HEADS = 1
_AUDIO_CONTEXT = 1500
_MELS = 80
_LOUD = 4.0

# Each window is a sentence of a second and a half and one of two, in German and in translation;
# any language may be named, but heard is German.
GERMAN = ("<|0.00|>", " Guten", " Tag", ".", "<|1.50|>", "<|1.60|>", " Danke", "!", "<|3.60|>")
TRANSLATED = ("<|0.02|>", " Good", " day", "…", "<|2.00|>")
SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("<|startoftranscript|>", "<|de|>"),
    ("<|transcribe|>", *GERMAN, "<|endoftext|>"),
    ("<|translate|>", *TRANSLATED, "<|endoftext|>"),
)
TEXT = "Guten Tag. Danke!"
TRANSLATION = "Good day…"
ENGLISH_SCRIPTS = (
    ("<|startoftranscript|>", "<|0.00|>", " Hello", " world", ".", "<|2.00|>", "<|endoftext|>"),
)
# The end is out of reach.
LOOPING_SCRIPTS = (("<|startoftranscript|>", "<|0.00|>", " Well", " la", " la"),)


def build_whisper(
    folder: Path,
    *,
    form: Form = "mlx-whisper",
    scripts: tuple[tuple[str, ...], ...] = SCRIPTS,
    vocabulary: str = "multilingual",
    text_context: int = 64,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = _config(NUM_TOKENS[vocabulary], text_context)
    weights = _weights(config, _table(scripts, is_multilingual=vocabulary == "multilingual"))
    if form == "Hugging Face":
        _write_hugging_face(folder, config, weights)
    else:
        _write(folder / "weights.safetensors", weights)
        _write_json(folder / "config.json", {"model_type": "whisper", **config})
    return folder


def _config(num_tokens: int, text_context: int) -> dict[str, int]:
    return {
        "n_mels": _MELS,
        "n_audio_ctx": _AUDIO_CONTEXT,
        "n_audio_state": _WIDTH,
        "n_audio_head": _HEADS,
        "n_audio_layer": 1,
        "n_vocab": num_tokens,
        "n_text_ctx": text_context,
        "n_text_state": _WIDTH,
        "n_text_head": _HEADS,
        "n_text_layer": 1,
    }


def _table(scripts: tuple[tuple[str, ...], ...], *, is_multilingual: bool) -> dict[int, int]:
    from mlx_whisper.tokenizer import get_tokenizer

    encoding = get_tokenizer(is_multilingual, num_languages=99).encoding
    table = {}
    for script in scripts:
        tokens = [encoding.encode(word, allowed_special="all") for word in script]
        assert all(len(each) == 1 for each in tokens), "a word of a script is one token"
        for [before], [after] in pairwise(tokens):
            assert table.get(before, after) == after, "one token always leads to the same other"
            table[before] = after
    return table


def _weights(config: Mapping[str, int], table: Mapping[int, int]) -> Weights:
    generator = np.random.default_rng(0)

    def random(*shape: int) -> NDArray[np.float32]:
        return (generator.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    weights: Weights = {
        "encoder.conv1.weight": random(_WIDTH, 3, _MELS),
        "encoder.conv1.bias": random(_WIDTH),
        "encoder.conv2.weight": random(_WIDTH, 3, _WIDTH),
        "encoder.conv2.bias": random(_WIDTH),
        "decoder.positional_embedding": np.zeros((config["n_text_ctx"], _WIDTH), np.float32),
        "alignment_heads": np.array([[0, 0]], np.int32),
    }
    for norm in ("encoder.ln_post", "decoder.ln"):
        weights |= _norm(norm)
    for block, has_cross in (("encoder.blocks.0", False), ("decoder.blocks.0", True)):
        for name in ("attn", "cross_attn") if has_cross else ("attn",):
            weights |= _norm(f"{block}.{name}_ln")
            for part in ("query", "key", "value", "out"):
                is_silent = part == "out" and has_cross
                shape = random(_WIDTH, _WIDTH) * (0 if is_silent else 1)
                weights[f"{block}.{name}.{part}.weight"] = shape.astype(np.float32)
                if part != "key":
                    weights[f"{block}.{name}.{part}.bias"] = np.zeros(_WIDTH, np.float32)
        weights |= _norm(f"{block}.mlp_ln")
        weights[f"{block}.mlp1.weight"] = random(4 * _WIDTH, _WIDTH)
        weights[f"{block}.mlp1.bias"] = np.zeros(4 * _WIDTH, np.float32)
        weights[f"{block}.mlp2.weight"] = random(_WIDTH, 4 * _WIDTH)
        weights[f"{block}.mlp2.bias"] = np.zeros(_WIDTH, np.float32)
    weights |= _script_weights(config["n_vocab"], table)
    return weights


def _script_weights(num_tokens: int, table: Mapping[int, int]) -> Weights:
    """Each token of the script has an axis of its own; a hidden unit an axis turns it into the
    axis of what comes next."""
    tokens = sorted({*table, *table.values()})
    assert len(tokens) <= _WIDTH
    axis = {token: place for place, token in enumerate(tokens)}
    embedding = np.zeros((num_tokens, _WIDTH), np.float32)
    embedding[tokens, range(len(tokens))] = _LOUD
    normed = 1 / np.sqrt((1 / _WIDTH) * (1 - 1 / _WIDTH)) * (1 - 1 / _WIDTH)
    threshold = normed / 2
    mlp1 = np.zeros((4 * _WIDTH, _WIDTH), np.float32)
    mlp2 = np.zeros((_WIDTH, 4 * _WIDTH), np.float32)
    for before, after in table.items():
        unit = axis[before]
        mlp1[unit, unit] = 1
        mlp2[axis[before], unit] -= _LOUD / threshold
        mlp2[axis[after], unit] += 10 * _LOUD / threshold
    return {
        "decoder.token_embedding.weight": embedding,
        "decoder.blocks.0.mlp1.weight": mlp1,
        "decoder.blocks.0.mlp1.bias": np.full(4 * _WIDTH, -threshold, np.float32),
        "decoder.blocks.0.mlp2.weight": mlp2,
    }


def _norm(name: str) -> Weights:
    return {
        f"{name}.weight": np.ones(_WIDTH, np.float32),
        f"{name}.bias": np.zeros(_WIDTH, np.float32),
    }


_HF_PARTS = (
    (".blocks.", ".layers."),
    ("cross_attn_ln.", "encoder_attn_layer_norm."),
    ("attn_ln.", "self_attn_layer_norm."),
    ("mlp_ln.", "final_layer_norm."),
    (".cross_attn.", ".encoder_attn."),
    (".attn.", ".self_attn."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".out.", ".out_proj."),
    (".mlp1.", ".fc1."),
    (".mlp2.", ".fc2."),
    ("encoder.ln_post.", "encoder.layer_norm."),
    ("decoder.ln.", "decoder.layer_norm."),
    ("decoder.token_embedding.", "decoder.embed_tokens."),
    ("decoder.positional_embedding", "decoder.embed_positions.weight"),
)


def _write_hugging_face(folder: Path, config: Mapping[str, int], weights: Weights) -> None:
    renamed: Weights = {}
    for name, value in weights.items():
        if name == "alignment_heads":
            continue
        if name.startswith("encoder.conv") and value.ndim == 3:
            value = np.ascontiguousarray(value.transpose(0, 2, 1))
        for ours, theirs in _HF_PARTS:
            name = name.replace(ours, theirs)
        renamed[f"model.{name}"] = value
    renamed["proj_out.weight"] = weights["decoder.token_embedding.weight"]
    renamed["model.encoder.embed_positions.weight"] = _sinusoids()
    _write(folder / "model.safetensors", renamed)
    heads = {"alignment_heads": weights["alignment_heads"].tolist()}
    _write_json(folder / "generation_config.json", heads)
    names = {
        "num_mel_bins": "n_mels",
        "max_source_positions": "n_audio_ctx",
        "d_model": "n_audio_state",
        "encoder_attention_heads": "n_audio_head",
        "encoder_layers": "n_audio_layer",
        "vocab_size": "n_vocab",
        "max_target_positions": "n_text_ctx",
        "decoder_attention_heads": "n_text_head",
        "decoder_layers": "n_text_layer",
    }
    written = {theirs: config[ours] for theirs, ours in names.items()}
    architecture = {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper"}
    _write_json(folder / "config.json", {**architecture, **written})


def _sinusoids() -> NDArray[np.float32]:
    half = _WIDTH // 2
    rates = np.exp(-np.log(10_000) / (half - 1) * np.arange(half))
    angles = np.arange(_AUDIO_CONTEXT)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def _write(path: Path, weights: Weights) -> None:
    from safetensors.numpy import save_file

    save_file(weights, str(path), metadata={"format": "mlx"})


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
