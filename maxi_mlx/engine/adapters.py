"""Puts a LoRA folder's layers over a model's own. Runs on the device thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from maxi_mlx.catalog.adapter_folders import WEIGHTS
from maxi_mlx.catalog.weights import read_header
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.models import Adapter, ModelEntry
from maxi_mlx.engine.loading import Loading, Steps


def adapter_steps(loading: Loading, model: Any) -> Steps[None]:
    """Changes ``model``, whose arrays stay those they are, but for those that an adapter of a full
    training replaces."""
    from mlx_lm.tuner.utils import load_adapters

    entry = loading.entry
    assert entry.adapter is not None
    own = set(map(id, _arrays(model).values()))
    try:
        load_adapters(model, str(entry.adapter.path))
        arrays = _arrays(model)
        added = {name: array for name, array in arrays.items() if id(array) not in own}
        _check_whole(added, entry.adapter)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise _misfit(entry, error) from None
    model.eval()  # the new layers would leave values out at random, as in training
    yield None
    yield from loading.evaluate(added.values())


def _arrays(model: Any) -> dict[str, mx.array]:
    return dict(tree_flatten(model.parameters()))


def _check_whole(added: Mapping[str, mx.array], adapter: Adapter) -> None:
    """mlx-lm leaves what a file lacks as it is before training: random, or without any effect."""
    given = read_header(adapter.path / WEIGHTS)
    missing = sorted(added.keys() - given.keys())
    if missing:
        lines = (f"{name}: not in its {WEIGHTS}" for name in missing)
        raise ValueError("\n".join(["It lacks tensors:", *lines]))


def _misfit(entry: ModelEntry, error: Exception) -> InvalidRequest:
    """mlx-lm names every tensor; the first says enough."""
    assert entry.adapter is not None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = lines[min(1, len(lines) - 1)] if lines else type(error).__name__
    more = f", and {len(lines) - 2} more like it" if len(lines) > 2 else ""
    return InvalidRequest(
        f"The adapter {entry.adapter.name} ({entry.adapter.path}) doesn't fit the model "
        f"{entry.id}: {words}{more}. Train it on this very model.",
        param="model",
    )
