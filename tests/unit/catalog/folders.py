"""Writes small real model folders: JSON files and safetensors with zeros."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LLAMA: Mapping[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "max_position_embeddings": 2048,
}
TENSORS: Mapping[str, int] = {"model.embed_tokens.weight": 64, "lm_head.weight": 32}


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_safetensors(path: Path, tensors: Mapping[str, int]) -> None:
    """Tensors by name, with so many bytes each."""
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    end = 0
    for name, num_bytes in tensors.items():
        header[name] = {"dtype": "U8", "shape": [num_bytes], "data_offsets": [end, end + num_bytes]}
        end += num_bytes
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))


def write_model(
    folder: Path,
    config: Mapping[str, Any] = LLAMA,
    *,
    tensors: Mapping[str, int] | None = TENSORS,
    files: Sequence[str] = ("tokenizer.json", "tokenizer_config.json"),
    **more: object,
) -> Path:
    """A llama of 96 bytes unless told otherwise. ``more`` is added to the config."""
    write_json(folder / "config.json", {**config, **more})
    if tensors is not None:
        write_safetensors(folder / "model.safetensors", tensors)
    for name in files:
        write_json(folder / name, {})
    return folder
