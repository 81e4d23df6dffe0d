"""Writes a random adapter for a tiny model, in the form that `mlx_lm.lora` leaves, and has mlx-lm
alone answer with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.models.folder import prepare_device


def build_adapter(
    folder: Path,
    base: Path,
    *,
    kind: str = "lora",
    model: str | None = None,
    num_layers: int = 2,
    seed: int = 0,
    **config: Any,
) -> Path:
    """``model`` is what the adapter says that it was trained on: by default the base's folder."""
    prepare_device()
    import mlx.core as mx
    import numpy as np
    from mlx.utils import tree_flatten
    from mlx_lm.tuner.utils import linear_to_lora_layers
    from mlx_lm.utils import load_model, save_config

    loaded = load_model(base, lazy=True)[0]
    parameters = {"rank": 4, "scale": 10.0, "dropout": 0.1}
    if kind != "full":
        loaded.freeze()
        linear_to_lora_layers(loaded, num_layers, parameters, use_dora=kind == "dora")
    generator = np.random.default_rng(seed)
    weights = {
        name: mx.array(generator.standard_normal(array.shape).astype(np.float32) * 0.2)
        if "lora" in name or kind == "full"
        else array
        for name, array in dict(tree_flatten(loaded.trainable_parameters())).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "adapters.safetensors"), weights)
    said = {
        "model": model or str(base),
        "fine_tune_type": kind,
        "num_layers": num_layers,
        "lora_parameters": parameters,
    }
    save_config(said | config, folder / "adapter_config.json")
    return folder


def tokens_by_mlx_lm(
    base: Path, adapter: Path | None, *, prompt: Sequence[int], count: int = 16
) -> list[int]:
    """A greedy answer."""
    prepare_device()
    import mlx.core as mx
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load

    model = load(str(base), adapter_path=str(adapter) if adapter else None)[0]
    steps = generate_step(mx.array(list(prompt)), model, max_tokens=count)
    return [int(token) for token, _ in steps]
