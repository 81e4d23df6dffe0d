"""Whatever happened before, what a store gives is what the tokens say: random histories of texts
that grow, part, are edited, evicted, written, lost and read again."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxi_mlx.kv_cache.model_store import ModelStore
from maxi_mlx.kv_cache.store import PrefixStore
from maxi_mlx.kv_cache.tree import Node
from tests.engine.kv_cache.memory_disk import MemoryDisk
from tests.engine.kv_cache.texts import MAKERS, Maker, cache_of, contents, read
from tests.unit.kv_cache.recount import recount

BUDGETS = {"none": 0, "tiny": 3000, "small": 9000, "ample": 1 << 30}


class History:
    """Several texts over few tokens, so that they share and part everywhere."""

    def __init__(self, make: Maker, budget_bytes: int, seed: int, *, with_disk: bool) -> None:
        self.random = random.Random(seed)
        self.make = make
        self.budget_bytes = budget_bytes
        self.disk = MemoryDisk() if with_disk else None
        self.texts: list[list[int]] = [[1, 2, 3]]
        self.start()

    def start(self) -> None:
        post = self.disk.post if self.disk is not None else None
        self.store = PrefixStore(self.budget_bytes, disk=self.disk, post=post, block_tokens=5)
        self.model = self.store.open("model", self.make)

    def tokens(self, most: int) -> list[int]:
        return [self.random.randrange(1, 4) for _ in range(self.random.randint(1, most))]

    def extend(self) -> None:
        text = self.random.choice(self.texts)
        if len(text) < 40:
            text += self.tokens(9)

    def branch(self) -> None:
        text = self.random.choice(self.texts)
        self.texts.append([*text[: self.random.randint(0, len(text))], *self.tokens(9)])

    def edit(self) -> None:
        text = self.random.choice(self.texts)
        text[self.random.randrange(len(text))] = self.random.randrange(1, 4)

    def turn(self) -> None:
        """A request: finds, fetches, reads the rest and keeps, sometimes on the way, too."""
        text = self.random.choice(self.texts)
        match = self.model.find(text, most_tokens=len(text) - 1)
        if self.disk is not None and match.num_on_disk and self.random.random() < 0.7:
            done: list[int] = []
            self.model.restore(match, lambda: done.append(1))
            self.disk.run()
            assert done == [1]
            match = self.model.find(text, most_tokens=len(text) - 1)
        if self.random.random() < 0.3:
            self.pressure()
        cache = self.model.fetch(match, room_tokens=self.random.randint(1, 9))
        assert contents(cache) == contents(cache_of(self.make, text[: match.num_tokens]))
        place = match.num_tokens
        if self.random.random() < 0.5:
            stop = self.random.randint(place, len(text))
            read(cache, text[place:stop])
            self.model.keep(text[:stop], cache)
            place = stop
        read(cache, text[place:])
        self.model.keep(text, cache)
        if self.budget_bytes == BUDGETS["ample"]:
            again = self.model.find(text, most_tokens=len(text))
            assert again.num_tokens == len(text)
            assert contents(self.model.fetch(again)) == contents(cache)
        read(cache, [3, 2, 1])  # the answer goes on, in a cache that was kept

    def pressure(self) -> None:
        self.store.shrink_to(self.random.randrange(1 + self.store.num_bytes))

    def lose(self) -> None:
        """The disk drops what it likes, or has no more room."""
        if self.disk is None:
            return
        pieces = self.disk.pieces["model"]
        for key in self.random.sample(sorted(pieces), k=len(pieces) // 4):
            del pieces[key]
        self.disk.is_full = self.random.random() < 0.3

    def restart(self) -> None:
        if self.disk is None:
            self.store.close(self.model)
            assert self.store.num_bytes == 0
        self.start()
        if self.disk is not None and self.random.random() < 0.7:
            self.disk.run()  # else what is on disk is learnt of under way

    def run(self, num_steps: int) -> None:
        steps = [self.extend, self.branch, self.edit, self.pressure, self.lose, self.restart]
        weights = [3, 2, 2, 1, 0.5, 0.5]
        for _ in range(num_steps):
            self.random.choices([*steps, self.turn], [*weights, 10])[0]()
            check(self.model, self.store)


def check(model: ModelStore, store: PrefixStore) -> None:
    """What must be true of the pieces at all times."""
    inventory = model._inventory
    nodes = list(inventory.nodes.values())
    assert store.num_bytes == sum(node.num_bytes for node in nodes)
    assert store.num_bytes <= store.budget_bytes
    stats = model.stats()
    told = (stats.num_pieces, stats.num_conversations, stats.num_tokens, stats.num_bytes)
    assert (*told, stats.shared_bytes) == pytest.approx(recount(nodes), abs=1)
    assert stats.num_bytes == store.num_bytes
    seen = set()
    for node in nodes:
        check_node(node, seen)
        assert inventory.nodes[node.key] is node
        assert node.is_kept or node.is_on_disk
        if model.has_states and node.kind == "block" and node.is_kept:
            assert node.num_dependents or node.is_on_disk
    assert inventory.root.num_dependents == count_kept(inventory.root)


def check_node(node: Node, seen: set[Node]) -> None:
    parent = node.parent
    assert parent is not None
    assert parent.parent is None or parent in seen, "parents come first"
    seen.add(node)
    assert node.num_dependents == count_kept(node)
    if node.is_kept:
        assert parent.is_kept
        assert parent.parent is None or parent.start + parent.num_kept >= node.start
    else:
        assert node.num_bytes == node.num_kept == 0
    if node.kind == "block":
        firsts = {(node.end, b"")} | set(node.blocks)
        assert len(firsts) == len(node.blocks) + 1
        for start, first in node.blocks:
            own = (start - node.start) * 4
            assert node.tokens[own : own + 4] != first, "a child parts from its parent"


def count_kept(node: Node) -> int:
    below: Sequence[Node] = [*node.blocks.values(), *node.checkpoints.values()]
    return sum(child.is_kept for child in below)


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("with_disk", [False, True], ids=["memory", "disk"])
@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32), budget=st.sampled_from(sorted(BUDGETS)))
def test_what_is_fetched_is_what_was_read(
    make: Maker, with_disk: bool, seed: int, budget: str
) -> None:
    History(make, BUDGETS[budget], seed, with_disk=with_disk).run(25)


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_long_histories(make: Maker, budget: str) -> None:
    for seed in range(12):
        History(make, BUDGETS[budget], seed, with_disk=seed % 2 == 1).run(150)
