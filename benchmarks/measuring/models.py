"""The folders of models that benchmarks run on.

Tiny llama: two layers of 64, random weights, and SmolLM2's tokenizer and vocabulary, so that what
is measured is the server and not the model. SmolLM2 itself: as pulled. Both without an end, so
that every answer is as long as asked for and all contenders do the same work.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TINY_NAME = "tiny-llama"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_REPLACED = frozenset({"config.json", "generation_config.json", "tokenizer_config.json"})
# Sharp enough that two tokens are seldom so close that rounding decides between them.
_LOGITS_SPREAD = 3.0
# Next to nothing, but not nothing: where the head is the embedding too, a token must have one.
_NEVER = 0.01

TINY_CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 16384,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "dtype": "float32",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchModel:
    """``is_tiny``: its steps cost next to nothing, and it has targets of its own."""

    name: str
    folder: Path
    is_tiny: bool


def smollm2_folder() -> Path:
    """Where `maxi-mlx pull smollm2` puts it; pulls it first where it isn't there."""
    from maxi_mlx.catalog.roots import home_models_dir

    found = _pulled(home_models_dir())
    if found is None:
        print("SmolLM2 is not on this machine yet: maxi-mlx pull smollm2", flush=True)
        subprocess.run([sys.executable, "-m", "maxi_mlx", "pull", "smollm2"], check=True)
        found = _pulled(home_models_dir())
    if found is None:
        raise SystemExit(f"maxi-mlx pull smollm2 left no model in {home_models_dir()}")
    return found


def _pulled(models: Path) -> Path | None:
    return next((path.parent for path in sorted(models.glob("SmolLM2*/config.json"))), None)


def endless_copy(source: Path, root: Path) -> BenchModel:
    """``source``'s files by links, with a token for the end that the model never writes."""
    folder = root / source.name
    folder.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.name not in _REPLACED:
            (folder / path.name).symlink_to(path.resolve())
    end_id, end = _unused_token(source)
    config = _read(source / "config.json")
    config["eos_token_id"] = end_id
    if "text_config" in config:
        config["text_config"]["eos_token_id"] = end_id
    _write(folder / "config.json", config)
    _write(folder / "generation_config.json", {"eos_token_id": end_id})
    tokenizer = _read(source / "tokenizer_config.json")
    _write(folder / "tokenizer_config.json", {**tokenizer, "eos_token": end})
    return BenchModel(name=source.name, folder=folder, is_tiny=False)


def twins(model: BenchModel, root: Path) -> tuple[str, str]:
    """The model under two names, each a folder of links in ``root``: to a server, two models."""
    names = (f"{model.name}-one", f"{model.name}-two")
    for name in names:
        (root / name).mkdir(parents=True)
        for path in model.folder.iterdir():
            (root / name / path.name).symlink_to(path.resolve())
    return names


def build_tiny(tokenizer_source: Path, root: Path) -> BenchModel:
    """Writes tiny llama with that folder's tokenizer."""
    folder = root / TINY_NAME
    write_random_model(
        folder,
        TINY_CONFIG,
        tokenizer_source=tokenizer_source,
        end=_unused_token(tokenizer_source),
        never=special_ids(tokenizer_source),
    )
    return BenchModel(name=TINY_NAME, folder=folder, is_tiny=True)


def write_random_model(
    folder: Path,
    config: Mapping[str, Any],
    *,
    tokenizer_source: Path,
    end: tuple[int, str],
    never: Sequence[int],
) -> None:
    """A model of that config with random weights, which does not write the tokens of ``never``,
    and another folder's tokenizer."""
    folder.mkdir(parents=True)
    for name in TOKENIZER_FILES:
        if (tokenizer_source / name).is_file():
            shutil.copyfile(tokenizer_source / name, folder / name)
    tokenizer = _read(folder / "tokenizer_config.json")
    tokenizer |= {"eos_token": end[1], "model_max_length": config["max_position_embeddings"]}
    _write(folder / "tokenizer_config.json", tokenizer)
    vocab_size = int(_read(tokenizer_source / "config.json")["vocab_size"])
    config = {**config, "vocab_size": vocab_size, "eos_token_id": end[0]}
    _write(folder / "config.json", config)
    _write(folder / "generation_config.json", {"eos_token_id": end[0]})
    _write_weights(folder, config, never=never)


def _write_weights(folder: Path, config: dict[str, Any], *, never: Sequence[int]) -> None:
    from maxi_mlx.engine import device

    device.prepare("auto")
    import mlx.core as mx
    import numpy as np
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes

    generator = np.random.default_rng(0)
    model_class, arguments_class = _get_classes(config)
    model = model_class(arguments_class.from_dict(dict(config)))
    parameters: dict[str, mx.array] = dict(tree_flatten(model.parameters()))
    head = "embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    for name, value in parameters.items():
        if value.ndim < 2:
            continue
        values = generator.standard_normal(value.shape).astype(np.float32)
        values /= np.float32(np.sqrt(np.prod(value.shape[1:])))
        if head in name:
            values *= np.float32(_LOGITS_SPREAD)
            values[list(never)] *= np.float32(_NEVER)
        parameters[name] = mx.array(values)
    path = str(folder / "model.safetensors")
    mx.save_safetensors(path, parameters, metadata={"format": "mlx"})


def _unused_token(folder: Path) -> tuple[int, str]:
    """The last special token that begins, ends or fills nothing: models never write it."""
    tokenizer = _read(folder / "tokenizer_config.json")
    used = {tokenizer.get(f"{role}_token") for role in ("bos", "eos", "pad", "unk")}
    tokens = [
        (int(token["id"]), str(token["content"]))
        for token in _read(folder / "tokenizer.json")["added_tokens"]
        if token["special"] and token["content"] not in used
    ]
    if not tokens:
        raise SystemExit(f"{folder}: every special token of its tokenizer is in use")
    return max(tokens)


def special_ids(folder: Path) -> list[int]:
    tokens = _read(folder / "tokenizer.json")["added_tokens"]
    return [int(token["id"]) for token in tokens if token["special"]]


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
