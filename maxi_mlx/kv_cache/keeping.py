"""Which pieces a cache would add to what is stored. Lives on the device thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from maxi_mlx.kv_cache.layout import Layout
from maxi_mlx.kv_cache.pieces import TOKEN_BYTES
from maxi_mlx.kv_cache.tree import Node, Use, end_of, new_block, new_checkpoint, way


@dataclass(frozen=True, slots=True)
class Plan:
    """A piece to be kept, and its arrays, not computed yet. ``replaces``: a shorter form of it."""

    node: Node
    arrays: Mapping[str, mx.array]
    num_tokens: int
    notes: Mapping[str, Any] = field(default_factory=dict)
    replaces: Node | None = None

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


def plan_blocks(
    root: Node, text: bytes, cache: Sequence[Any], layout: Layout, *, block_tokens: int
) -> tuple[list[Plan], Node]:
    """The blocks that are missing for ``text``, parents first, and the one that it ends in."""
    uses = way(root, text)
    plans = [
        _plan(use.node, cache, layout, num_tokens=use.num_tokens)
        for use in uses
        if use.node.num_kept < use.num_tokens
    ]
    host, place, replaces = uses[-1].node if uses else root, end_of(uses), None
    end = len(text) // TOKEN_BYTES
    if place < end and uses and _is_growing(uses[-1], block_tokens):
        # A text's end is copied into a longer block, so that its blocks don't get many and small.
        replaces, place = host, host.start
        plans = [plan for plan in plans if plan.node is not replaces]
        assert replaces.parent is not None
        host = replaces.parent
    while place < end:
        stop = min(place + block_tokens, end)
        host = new_block(host, place, text[place * TOKEN_BYTES : stop * TOKEN_BYTES])
        plans.append(_plan(host, cache, layout, num_tokens=stop - place, replaces=replaces))
        place, replaces = stop, None
    return plans, host


def plan_checkpoint(host: Node, place: int, cache: Sequence[Any], layout: Layout) -> Plan | None:
    """None where it is kept already."""
    node = host.checkpoints.get(place) or new_checkpoint(host, place)
    if node.is_kept:
        return None
    arrays, notes = layout.take_states(cache)
    return Plan(node, arrays, 0, notes)


def _plan(
    node: Node,
    cache: Sequence[Any],
    layout: Layout,
    *,
    num_tokens: int,
    replaces: Node | None = None,
) -> Plan:
    arrays = layout.cut(cache, node.start, node.start + num_tokens)
    return Plan(node, arrays, num_tokens, replaces=replaces)


def _is_growing(use: Use, block_tokens: int) -> bool:
    node = use.node
    is_used_up = use.num_tokens == node.num_tokens
    return is_used_up and node.num_tokens < block_tokens and not node.has_children
