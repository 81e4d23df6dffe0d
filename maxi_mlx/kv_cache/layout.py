"""What a row's cache is made of: layers that can be cut at any token, and states that can't.

    KVCache, QuantizedKVCache      keys and values of token i depend on tokens up to i: cut freely
    all others (windows, chunks,   one state for all tokens so far: kept whole, as a checkpoint,
    Mamba, convolutions …)         and good for exactly those tokens

Lists of caches are looked into. Lives on the device thread, as the arrays do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ChunkedKVCache, KVCache, QuantizedKVCache, RotatingKVCache

from maxi_mlx.kv_cache.states import pack, unpack

Arrays = Mapping[str, mx.array]

_TOKEN_AXIS = 2


def leaves_of(cache: Iterable[Any]) -> Iterator[Any]:
    for entry in cache:
        if hasattr(entry, "caches"):
            yield from leaves_of(entry.caches)
        else:
            yield entry


@dataclass(frozen=True, slots=True)
class Layout:
    """``growing`` and ``states`` are places among the leaves of a cache. Where a class has no
    state to be read and set, nothing of the model can be kept."""

    new_cache: Callable[[], list[Any]]
    growing: tuple[int, ...]
    states: tuple[int, ...]
    is_storable: bool

    @property
    def has_states(self) -> bool:
        return bool(self.states)

    def check(self, cache: Sequence[Any], num_tokens: int) -> None:
        """Raises ValueError for a cache of another length or of several rows: under these tokens
        it would be found for the wrong ones."""
        leaves = list(leaves_of(cache))
        if len(leaves) != len(self.growing) + len(self.states):
            raise ValueError(f"the cache has {len(leaves)} layers, the model's has another number")
        for index in self.growing:
            leaf = leaves[index]
            if leaf.keys is None:
                continue
            if leaf.offset != num_tokens:
                raise ValueError(f"the cache holds {leaf.offset} tokens, not {num_tokens}")
            num_rows = _parts(leaf.keys)[0].shape[0]
            if num_rows != 1:
                raise ValueError(f"the cache is one of {num_rows} rows; one alone can be kept")

    def cut(self, cache: Sequence[Any], start: int, stop: int) -> dict[str, mx.array]:
        """Keys and values of some tokens: lazy, and once evaluated in memory of their own."""
        leaves = list(leaves_of(cache))
        arrays = {}
        for index in self.growing:
            for name, array in _named_parts(index, leaves[index]):
                arrays[name] = mx.contiguous(array[..., start:stop, :])
        return arrays

    def is_block(self, arrays: Arrays, num_tokens: int) -> bool:
        """Whether arrays that come from elsewhere can be a block of so many tokens."""
        allowed = {f"{index}." for index in self.growing}
        return all(
            name[: name.index(".") + 1] in allowed
            and array.ndim == 4
            and array.shape[0] == 1
            and array.shape[_TOKEN_AXIS] == num_tokens
            for name, array in arrays.items()
        )

    def is_checkpoint(self, arrays: Arrays, notes: Mapping[str, Any]) -> bool:
        """Whether what comes from elsewhere can be the states of this model's layers."""
        states = notes.get("states")
        if not isinstance(states, list) or len(states) != len(self.states):
            return False
        leaves = list(leaves_of(self.new_cache()))
        try:
            for index, note in zip(self.states, states, strict=True):
                leaves[index].state = unpack(note, arrays)
        except (KeyError, TypeError, ValueError, AttributeError):
            return False
        return True

    def take_states(self, cache: Sequence[Any]) -> tuple[dict[str, mx.array], dict[str, Any]]:
        """The states as they are now, as arrays and as notes that say where each belongs. Raises
        TypeError where a state holds what can't be written down."""
        leaves = list(leaves_of(cache))
        arrays: dict[str, mx.array] = {}
        notes = [pack(_trimmed_state(leaves[index]), arrays) for index in self.states]
        return arrays, {"states": notes}

    def assemble(
        self,
        blocks: Sequence[tuple[Arrays, int]],
        checkpoint: tuple[Arrays, Mapping[str, Any]] | None,
        *,
        room_tokens: int,
    ) -> list[Any]:
        """A cache of its own from the first tokens of each block, and a checkpoint's states.

        ``room_tokens`` may be added before it has to be copied. One evaluation in all.
        """
        cache = self.new_cache()
        leaves = list(leaves_of(cache))
        for index in self.growing:
            _fill(leaves[index], index, blocks, room_tokens)
        if checkpoint is not None:
            arrays, notes = checkpoint
            for index, note in zip(self.states, notes["states"], strict=True):
                leaves[index].state = unpack(note, arrays)
        mx.eval([leaf.state for leaf in leaves])
        return cache


def layout_of(new_cache: Callable[[], list[Any]]) -> Layout:
    growing, states = [], []
    is_storable = True
    for index, leaf in enumerate(leaves_of(new_cache())):
        # A subclass may keep more than what it inherits.
        if type(leaf) in (KVCache, QuantizedKVCache):
            growing.append(index)
        else:
            states.append(index)
            state = getattr(type(leaf), "state", None)
            is_storable = is_storable and isinstance(state, property) and _keeps_state(leaf)
    return Layout(new_cache, tuple(growing), tuple(states), is_storable)


def _keeps_state(leaf: Any) -> bool:
    # What mlx-lm's base class has is an empty list, for classes that said nothing.
    return bool(leaf.state)


def _parts(keys: Any) -> Sequence[mx.array]:
    return keys if isinstance(keys, tuple | list) else (keys,)


def _named_parts(index: int, leaf: Any) -> Iterator[tuple[str, mx.array]]:
    """A plain cache has keys and values, a quantised one three arrays of each."""
    if leaf.keys is None:
        return
    for side, whole in (("keys", leaf.keys), ("values", leaf.values)):
        for number, part in enumerate(_parts(whole)):
            yield f"{index}.{side}.{number}", part


def _trimmed_state(leaf: Any) -> Any:
    """The state without memory that only waits for more tokens, or holds what a window has left
    behind: after a long slice of a prompt that can be most of it."""
    if type(leaf) is RotatingKVCache and leaf.keys is not None:
        keys, values = (_window(leaf, array) for array in (leaf.keys, leaf.values))
        num_tokens = keys.shape[_TOKEN_AXIS]
        return keys, values, leaf.offset, leaf.keep, leaf.max_size, num_tokens
    if type(leaf) is ChunkedKVCache and leaf.keys is not None:
        keys, values = leaf.keys_and_values()
        return keys, values, leaf.offset, leaf.chunk_size, leaf.start_position
    return leaf.state


def _window(leaf: Any, array: mx.array) -> mx.array:
    """The window's tokens in their order."""
    ordered: mx.array = leaf._temporal_order(array)
    surplus = ordered.shape[_TOKEN_AXIS] - leaf.max_size
    if surplus <= 0:
        return ordered
    first, rest = ordered[..., : leaf.keep, :], ordered[..., leaf.keep + surplus :, :]
    return mx.concatenate([first, rest], axis=_TOKEN_AXIS) if leaf.keep else rest


def _fill(leaf: Any, index: int, blocks: Sequence[tuple[Arrays, int]], room_tokens: int) -> None:
    names = [name for name in (blocks[0][0] if blocks else ()) if name.startswith(f"{index}.")]
    if not names:
        return
    num_tokens = sum(used for _, used in blocks)
    room = -(num_tokens + room_tokens) % leaf.step + room_tokens
    sides: dict[str, list[mx.array]] = {"keys": [], "values": []}
    for name in sorted(names):
        parts = [arrays[name][..., :used, :] for arrays, used in blocks]
        shape = list(parts[0].shape)
        shape[_TOKEN_AXIS] = room
        parts.append(mx.zeros(shape, parts[0].dtype))
        sides[name.split(".")[1]].append(mx.concatenate(parts, axis=_TOKEN_AXIS))
    is_plain = type(leaf) is KVCache
    leaf.keys, leaf.values = (
        side[0] if is_plain else tuple(side) for side in (sides["keys"], sides["values"])
    )
    leaf.offset = num_tokens
