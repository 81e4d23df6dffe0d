"""How much of a prompt is stored, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maxi_mlx.kv_cache.pieces import TOKEN_BYTES
from maxi_mlx.kv_cache.tree import (
    Node,
    Use,
    checkpoints_on,
    cut,
    end_of,
    kept_part,
    reachable_part,
    way,
)


@dataclass(frozen=True, slots=True)
class Match:
    """Of the ``num_asked`` tokens of a prompt ``num_tokens`` can be had from memory, and
    ``num_tokens_with_disk`` once the pieces named by ``keys`` were read. ``is_whole``: all that was
    asked for, or all of a stored text. ``num_shared``: so many are known of some text, though not
    all may be of use; where a model has states, a checkpoint there would serve both texts.

    Holds the arrays, so that they may be fetched whatever is evicted meanwhile: not for long."""

    num_asked: int = 0
    num_tokens: int = 0
    num_tokens_with_disk: int = 0
    num_shared: int = 0
    keys: tuple[str, ...] = ()
    is_whole: bool = False
    uses: tuple[Use, ...] = ()
    checkpoint: Node | None = None
    arrays: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    states: tuple[Mapping[str, Any], Mapping[str, Any]] | None = field(default=None, repr=False)

    @property
    def num_on_disk(self) -> int:
        """How many more tokens the disk has."""
        return self.num_tokens_with_disk - self.num_tokens


def find_match(root: Node, text: bytes, *, has_states: bool) -> Match:
    """``text``: the tokens that may be used, encoded."""
    path = way(root, text)
    kept, reachable = kept_part(path), reachable_part(path)
    uses, checkpoint = _usable(kept, has_states=has_states, on_disk=False)
    with_disk, further = _usable(reachable, has_states=has_states, on_disk=True)
    num_tokens, num_with_disk = end_of(uses), end_of(with_disk)
    keys: tuple[str, ...] = ()
    if num_with_disk > num_tokens:
        keys = tuple(use.node.key for use in with_disk if use.node.num_kept < use.num_tokens)
        keys += (further.key,) if further is not None and not further.is_kept else ()
    states = None
    if checkpoint is not None and checkpoint.arrays is not None:
        states = checkpoint.arrays, checkpoint.notes
    num_asked = len(text) // TOKEN_BYTES
    is_all = num_tokens == end_of(kept) and _is_end(uses)
    return Match(
        num_asked=num_asked,
        num_tokens=num_tokens,
        num_tokens_with_disk=max(num_tokens, num_with_disk),
        num_shared=end_of(path),
        keys=keys,
        is_whole=is_all or num_tokens == num_asked,
        uses=tuple(uses),
        checkpoint=checkpoint,
        arrays=tuple(use.node.arrays or {} for use in uses),
        states=states,
    )


def _usable(uses: list[Use], *, has_states: bool, on_disk: bool) -> tuple[list[Use], Node | None]:
    """Where there are states, a text can be used up to a checkpoint."""
    if not has_states:
        return uses, None
    for checkpoint in reversed(checkpoints_on(uses)):
        if checkpoint.is_kept or (on_disk and checkpoint.is_on_disk):
            return cut(uses, checkpoint.start), checkpoint
    return [], None


def _is_end(uses: list[Use]) -> bool:
    if not uses:
        return False
    node = uses[-1].node
    return uses[-1].num_tokens == node.num_tokens and not any(
        child.is_kept and child.start == node.end for child in node.blocks.values()
    )
