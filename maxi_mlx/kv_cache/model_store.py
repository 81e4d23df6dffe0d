"""What is stored of one model's prompts: found, fetched and kept. Lives on the device thread.

prompt ──find──► Match ──fetch──► a cache of its own ──model──► cache ──keep──► pieces
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import mlx.core as mx

from maxi_mlx.kv_cache.budget import Budget
from maxi_mlx.kv_cache.counts import CacheStats, HitRate
from maxi_mlx.kv_cache.host_arrays import from_host
from maxi_mlx.kv_cache.inventory import Inventory, is_piece
from maxi_mlx.kv_cache.keeping import Plan, plan_blocks, plan_checkpoint
from maxi_mlx.kv_cache.layout import layout_of
from maxi_mlx.kv_cache.match import Match, find_match
from maxi_mlx.kv_cache.pieces import HostPiece, PieceHead, encode_tokens
from maxi_mlx.kv_cache.shelf import Shelf
from maxi_mlx.kv_cache.tree import Node, checkpoints_on, way
from maxi_mlx.kv_cache.worth import thin


class ModelStore:
    """Made by `PrefixStore.open`. The namespace names all that the caches depend on."""

    def __init__(
        self,
        namespace: str,
        new_cache: Callable[[], list[Any]],
        *,
        budget: Budget,
        shelf: Shelf | None,
        clock: Callable[[], float],
        total_rate: HitRate,
        block_tokens: int,
        token_cost_s: float,
    ) -> None:
        self.namespace = namespace
        self._hit_rates = (HitRate(clock), total_rate)
        self._layout = layout_of(new_cache)
        self._budget = budget
        self._shelf = shelf
        self._block_tokens = block_tokens
        self._inventory = Inventory(
            namespace,
            budget=budget,
            shelf=shelf,
            has_states=self._layout.has_states,
            token_cost_s=token_cost_s,
        )
        self.counts = self._inventory.counts
        self.is_listed = shelf is None or not self.is_storing
        self._on_listed: list[Callable[[], None]] = []
        if shelf is not None and self.is_storing:
            shelf.listen(self, self._inventory.root.key)

    @property
    def is_storing(self) -> bool:
        """False once closed, and for a model of whose caches nothing can be kept."""
        return self._inventory.is_open and self._layout.is_storable

    @property
    def num_bytes_of_all(self) -> int:
        """What is stored under the same budget, of whatever model."""
        return self._budget.num_bytes

    @property
    def has_states(self) -> bool:
        """Whether a text is found only as far as a checkpoint: where `keep` was called."""
        return self._layout.has_states

    @property
    def token_cost_s(self) -> float:
        """What reading a prompt's token takes: who measures it may set it. It weighs the pieces of
        one model against another's."""
        return self._inventory.token_cost_s

    @token_cost_s.setter
    def token_cost_s(self, value: float) -> None:
        self._inventory.token_cost_s = value

    def find(self, token_ids: Sequence[int], *, most_tokens: int) -> Match:
        """How much of a prompt's first ``most_tokens`` is there; a prompt's last token has to be
        left to run. Changes nothing."""
        if not self.is_storing or not self._budget.budget_bytes:
            return Match()
        text = encode_tokens(token_ids[: max(most_tokens, 0)])
        return find_match(self._inventory.root, text, has_states=self.has_states)

    def fetch(self, match: Match, *, room_tokens: int = 1) -> list[Any]:
        """A cache that holds exactly ``match.num_tokens``, and nobody else's memory.

        ``room_tokens``, such as the rest of the prompt, fit in before it has to be copied to grow.
        """
        self._count(match)
        used = [use.node for use in match.uses]
        if match.checkpoint is not None:
            used.append(match.checkpoint)
        for node in used:
            if node.is_kept:
                self._inventory.use(node, is_new_use=True)
        if self._shelf is not None:
            self._shelf.touch(node.key for node in used if node.is_on_disk)
        blocks = [
            (arrays, use.num_tokens) for arrays, use in zip(match.arrays, match.uses, strict=True)
        ]
        return self._layout.assemble(blocks, match.states, room_tokens=room_tokens)

    def restore(self, match: Match, on_done: Callable[[], None]) -> None:
        """Reads what `find` saw on disk into memory. ``on_done`` is called on the device thread,
        once, when all has come that will; at once where there is nothing to read. Then `find`
        again, and go on with what it says: there may not be room for all of it."""
        if self._shelf is None or not match.keys or not self.is_storing:
            on_done()
            return
        self._shelf.restore(self, match.keys, on_done)

    def when_listed(self, on_done: Callable[[], None]) -> None:
        """``is_listed`` says whether all is known that the disk has. Until then `find` may miss
        some of it, and ``on_done`` is called, on the device thread, once it is."""
        self._on_listed.append(on_done)

    def listed(self) -> None:
        self.is_listed = True
        waiting, self._on_listed = self._on_listed, []
        for on_done in waiting:
            on_done()

    def keep(self, token_ids: Sequence[int], cache: Sequence[Any]) -> None:
        """Stores a cache that holds exactly these tokens: the pieces that are missing, and where
        a model has states a checkpoint.

        The cache stays the caller's. Raises ValueError where it holds another number of tokens or
        rows. Where memory is short a text's beginning is kept; what MLX raises as it computes goes
        on to the caller, and the store is as it was, but for what it evicted.
        """
        if not self.is_storing or not self._budget.budget_bytes or not token_ids:
            return
        self._layout.check(cache, len(token_ids))
        text = encode_tokens(token_ids)
        root = self._inventory.root
        self._budget.look()
        for use in way(root, text):
            if use.node.is_kept:
                self._inventory.use(use.node, is_new_use=False)
        plans, last = plan_blocks(root, text, cache, self._layout, block_tokens=self._block_tokens)
        if self.has_states:
            checkpoint = plan_checkpoint(last, len(token_ids), cache, self._layout)
            if checkpoint is None or not self._would_fit([*plans, checkpoint]):
                return
            plans.append(checkpoint)
        self._store(plans)
        self._thin(text)
        self._inventory.prune(last)
        self._inventory.sweep()
        self._budget.tidy()

    def stats(self) -> CacheStats:
        """As of now. Counted all the time, so that asking costs nothing."""
        kept = self._inventory.tally
        return CacheStats(
            num_pieces=kept.num_pieces,
            num_conversations=kept.num_conversations,
            num_tokens=kept.num_tokens,
            num_bytes=kept.num_bytes,
            shared_bytes=kept.shared_bytes,
            hit_rate=self._hit_rates[0].rate(),
            **self.counts.as_dict(),
        )

    def close(self) -> None:
        self._inventory.close()
        if self._shelf is not None:
            self._shelf.forget(self)

    def write_more(self, num_bytes: int) -> None:
        self._inventory.write_more(num_bytes)

    def learn(self, heads: Iterable[tuple[PieceHead, bytes]]) -> None:
        """What the disk has."""
        if self.is_storing:
            self._inventory.learn(heads)

    def take_back(self, key: str, piece: HostPiece | None) -> None:
        """What the disk gave, None where it has it no longer."""
        node = self._inventory.nodes.get(key)
        if node is None or not node.is_on_disk:
            return
        if piece is None:
            self._inventory.is_gone(node)
            return
        parent = node.parent
        assert parent is not None
        is_needed = node.num_kept < node.num_tokens or not node.is_kept
        if not is_needed or not parent.is_kept or parent.start + parent.num_kept < node.start:
            return
        content = self._content(node, piece)
        if content is None:
            self._inventory.is_gone(node)
            return
        arrays, notes = content
        num_bytes = sum(array.nbytes for array in arrays.values())
        self._budget.look()  # they are there already, and are counted twice for a moment
        with self._budget.holding(parent), self._budget.holding(node):
            if self._budget.make_room(num_bytes - node.num_bytes):
                self._inventory.admit(node, arrays, num_kept=node.num_tokens, notes=notes)
                self.counts.num_restores += 1

    def _content(
        self, node: Node, piece: HostPiece
    ) -> tuple[dict[str, mx.array], Mapping[str, Any]] | None:
        """A piece from disk in MLX's memory; None for one that can't be what it should."""
        try:
            arrays = {name: from_host(array) for name, array in piece.arrays.items()}
            if node.kind == "block":
                is_sound = self._layout.is_block(arrays, node.num_tokens)
            else:
                is_sound = self._layout.is_checkpoint(arrays, piece.notes)
        except ValueError:
            return None
        if not is_sound or not is_piece(node, piece.head):
            return None
        mx.eval(list(arrays.values()))
        return arrays, piece.notes

    def _would_fit(self, plans: Sequence[Plan]) -> bool:
        """Blocks without their checkpoint would be of no use."""
        num_bytes = sum(plan.num_bytes for plan in plans)
        node = plans[0].node.parent
        while node is not None:
            num_bytes += node.num_bytes
            node = node.parent
        return num_bytes <= self._budget.most_bytes

    def _store(self, plans: Sequence[Plan]) -> None:
        """As many as there is room for, parents first; all in one evaluation."""
        stored: list[tuple[Node, Mapping[str, Any] | None, int]] = []
        for plan in plans:
            node, parent = plan.node, plan.node.parent
            assert parent is not None
            with self._budget.holding(parent), self._budget.holding(node):
                if plan.replaces is not None:
                    self._inventory.replace(plan.replaces)
                if not self._budget.make_room(plan.num_bytes - node.num_bytes):
                    break
                stored.append((node, node.arrays, node.num_kept))
                self._inventory.admit(node, plan.arrays, num_kept=plan.num_tokens, notes=plan.notes)
        try:
            mx.eval([list((node.arrays or {}).values()) for node, _, _ in stored])
        except BaseException:
            for node, arrays, num_kept in reversed(stored):
                if arrays is not None:
                    self._inventory.admit(node, arrays, num_kept=num_kept)
                elif node.is_kept:
                    self._inventory.drop(node)
            raise
        for node, _, _ in stored:
            self._inventory.write(node)

    def _thin(self, text: bytes) -> None:
        """A text with many checkpoints loses one that is seldom worth its memory."""
        while self.has_states:
            passed = checkpoints_on(way(self._inventory.root, text))
            spared = thin([node for node in passed if node.is_kept])
            if spared is None:
                return
            self._inventory.evict(spared)

    def _count(self, match: Match) -> None:
        if not match.num_asked:  # a prompt of one token
            return
        self.counts.num_tokens_saved += match.num_tokens
        if not match.num_tokens:
            self.counts.num_misses += 1
        elif match.is_whole:
            self.counts.num_hits += 1
        else:
            self.counts.num_partial_hits += 1
        for hit_rate in self._hit_rates:
            hit_rate.count(is_hit=match.num_tokens > 0)
