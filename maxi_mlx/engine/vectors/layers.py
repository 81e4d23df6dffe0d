"""A batch layer by layer, whatever the model.

MLX computes nothing before it is asked to. So a model's own code makes the whole graph of a batch
at once; what each layer gives is noted on the way, and computed one after the other afterwards,
with pauses in which the device may do something else.

    graph:     tokens ─► layer ─► layer ─► layer ─► vectors
    computed:           └─ 1 ─┘ └─ 2 ─┘ └─ 3 ─┘ └── 4 ──┘
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import mlx.core as mx
from mlx.nn.layers.base import Module

T = TypeVar("T")
Pauses = Generator[None, None, T]


class LayerNotes:
    """What the layers of one model gave since it was last asked. Lives on the device thread."""

    def __init__(self, model: Module) -> None:
        """Puts itself between the model and its layers, whose weights must be loaded by then."""
        self._given: list[mx.array] = []
        layers = _layers_of(model)
        layers[:] = [_Noted(layer, self._given) for layer in layers]

    def take(self) -> list[mx.array]:
        given = self._given.copy()
        self._given.clear()
        return given


class _Noted:
    """A layer in all but that what it gives is noted."""

    def __init__(self, layer: Any, given: list[mx.array]) -> None:
        self._layer = layer
        self._given = given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._layer(*args, **kwargs)
        vectors = result[0] if isinstance(result, tuple) else result
        if isinstance(vectors, mx.array):
            self._given.append(vectors)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def _layers_of(model: Module) -> list[Any]:
    """The longest list of modules in a model, which is that of its layers."""
    longest: list[Any] = []
    for _, module in model.named_modules():  # type: ignore[no-untyped-call]
        for value in module.values():
            is_stack = isinstance(value, list) and all(isinstance(each, Module) for each in value)
            if is_stack and len(value) > len(longest):
                longest = value
    return longest


def computed(parts: list[mx.array], result: mx.array) -> Pauses[mx.array]:
    """Computes ``parts`` in turn, which are emptied so that none stays in memory, and the result
    that they are part of."""
    while parts:
        mx.eval(parts.pop(0))
        yield
    mx.eval(result)
    return result
