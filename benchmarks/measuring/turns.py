"""Contenders take turns at the same work, so that a busy machine slows all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

Contender = Callable[[Sequence[str]], Awaitable[T]]


async def take_turns(
    contenders: Mapping[str, Contender[T]],
    prompts_of: Callable[[int], Sequence[str]],
    *,
    num_rounds: int,
) -> dict[str, list[T]]:
    """Each contender's results, round by round. Who begins changes with every round. Round 0 is
    not counted: kernels are compiled and memory is taken in it."""
    rounds: dict[str, list[T]] = {name: [] for name in contenders}
    order = list(contenders.items())
    for index in range(num_rounds + 1):
        prompts = prompts_of(index)
        for name, contender in order if index % 2 else reversed(order):
            result = await contender(prompts)
            if index > 0:
                rounds[name].append(result)
    return rounds
