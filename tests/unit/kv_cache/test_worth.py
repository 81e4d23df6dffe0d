"""The order in which pieces go, the thinning of checkpoints, and the sums."""

from __future__ import annotations

import pytest

from maxi_mlx.kv_cache.counts import Counts, HitRate
from maxi_mlx.kv_cache.heads import parents_first
from maxi_mlx.kv_cache.pieces import PieceHead, encode_tokens, piece_key, root_key
from maxi_mlx.kv_cache.tally import Tally
from maxi_mlx.kv_cache.tree import Node, link, new_block, new_checkpoint
from maxi_mlx.kv_cache.worth import MAX_CHECKPOINTS, Worth, compute_tokens, thin, weigh

ROOT = root_key("a model")


def new_root() -> Node:
    return Node(ROOT, "block", None, 0, arrays={})


def kept_block(parent: Node, start: int, token_ids: list[int], *, num_bytes: int = 0) -> Node:
    node = new_block(parent, start, encode_tokens(token_ids))
    node.arrays, node.num_kept = {}, len(token_ids)
    node.num_bytes = num_bytes or len(token_ids)
    link(node)
    weigh(node)
    return node


def order(worth: Worth) -> list[Node]:
    found = []
    while (node := worth.least()) is not None:
        node.arrays = None
        found.append(node)
    return found


def test_what_saves_least_for_its_bytes_goes_first() -> None:
    root, worth = new_root(), Worth()
    plain = kept_block(root, 0, [1, 1, 1])
    large = kept_block(root, 0, [2, 2, 2], num_bytes=30)
    used = kept_block(root, 0, [3, 3, 3])
    deep = kept_block(root, 0, [4, 4, 4])
    deep.saved_tokens = compute_tokens(20_000, 3)
    for node in (used, deep, plain, large):
        worth.use(node, is_new_use=True, token_cost_s=1.0)
    for _ in range(5):
        worth.use(used, is_new_use=True, token_cost_s=1.0)
    assert order(worth) == [large, plain, deep, used]


def test_of_equals_the_older_goes_first_and_use_makes_young() -> None:
    root, worth = new_root(), Worth()
    nodes = [kept_block(root, 0, [i, 0, 0]) for i in range(4)]
    for node in nodes:
        worth.use(node, is_new_use=True, token_cost_s=1.0)
    worth.use(nodes[0], is_new_use=False, token_cost_s=1.0)
    assert order(worth)[-1] is not nodes[1]
    assert worth.least() is None


def test_a_piece_that_others_hang_on_waits_for_them() -> None:
    root, worth = new_root(), Worth()
    parent = kept_block(root, 0, [1, 1, 1], num_bytes=300)
    child = kept_block(parent, 3, [1, 1, 1])
    parent.num_dependents = 1
    for node in (parent, child):
        worth.use(node, is_new_use=True, token_cost_s=1.0)
    assert worth.least() is child
    child.arrays = None
    assert worth.least() is None
    parent.num_dependents = 0
    worth.offer(parent)
    assert worth.least() is parent


def test_entries_out_of_date_are_dropped_some_time() -> None:
    root, worth = new_root(), Worth()
    nodes = [kept_block(root, 0, [i]) for i in range(3)]
    for _ in range(1000):
        for node in nodes:
            worth.use(node, is_new_use=True, token_cost_s=1.0)
        worth.tidy(nodes)
    assert len(worth._heap) <= 1010
    assert set(order(worth)) == set(nodes)


def checkpoints_at(*places: int) -> list[Node]:
    block = kept_block(new_root(), 0, [1] * 1000)
    found = []
    for place in places:
        node = new_checkpoint(block, place)
        node.arrays, node.frequency = {}, 1
        link(node)
        found.append(node)
    return found


def test_few_checkpoints_are_all_kept() -> None:
    assert thin([]) is None
    assert thin(checkpoints_at(*range(1, MAX_CHECKPOINTS + 1))) is None


def test_the_first_the_newest_and_forks_are_not_thinned() -> None:
    nodes = checkpoints_at(*range(100, 1000, 100))
    spared = thin(nodes)
    assert spared is not None
    assert spared not in (nodes[0], *nodes[-3:])
    spared.frequency = 5
    other = thin(nodes)
    assert other not in (spared, nodes[0], *nodes[-3:])
    assert other is not None
    assert other.parent is not None
    link(new_block(other.parent, other.start, encode_tokens([7, 7])))
    assert thin(nodes) not in (other, spared)


def test_a_checkpoint_weighs_what_leaves_with_it() -> None:
    first = kept_block(new_root(), 0, [1] * 10)
    second = kept_block(first, 10, [1] * 10)
    early, late = new_checkpoint(first, 6), new_checkpoint(second, 20)
    for node in (early, late):
        node.arrays, node.num_bytes = {}, 100
        link(node)
        weigh(node)
    assert (early.weight_bytes, round(early.saved_tokens)) == (110, 6)
    assert (late.weight_bytes, round(late.saved_tokens)) == (110, 14)


def test_a_tally_counts_what_is_shared() -> None:
    root, tally = new_root(), Tally()
    first = kept_block(root, 0, list(range(10)), num_bytes=100)
    tally.add(first)
    second = kept_block(first, 10, list(range(10)), num_bytes=100)
    tally.add(second)
    assert (tally.num_conversations, tally.shared_bytes) == (1, 0)
    aside = kept_block(first, 4, [99] * 5, num_bytes=50)
    tally.add(aside)
    checkpoint = new_checkpoint(first, 4)
    checkpoint.arrays, checkpoint.num_bytes = {}, 7
    link(checkpoint)
    tally.add(checkpoint)
    assert (tally.num_pieces, tally.num_conversations, tally.num_tokens) == (4, 2, 25)
    assert tally.num_bytes == 257
    # What the second text has of the first: four tokens, and the checkpoint.
    assert tally.shared_bytes == 40 + 7
    for node in (checkpoint, second):
        tally.remove(node)
        node.arrays, node.num_kept, node.num_bytes = None, 0, 0
    # The first text ends where it did before.
    assert (tally.num_conversations, tally.shared_bytes) == (2, 40)
    with tally.changing(first):
        first.num_kept, first.num_bytes = 5, 50
    assert (tally.num_conversations, tally.num_bytes, tally.shared_bytes) == (2, 100, 40)


def test_a_text_that_ends_where_others_branched_off_counts() -> None:
    tally = Tally()
    first = kept_block(new_root(), 0, list(range(10)))
    tally.add(first)
    tally.add(kept_block(first, 4, [99]))
    assert tally.num_conversations == 2
    assert tally.shared_bytes == 4


def test_the_hit_rate_is_of_an_hour() -> None:
    now_s = [0.0]
    rate = HitRate(lambda: now_s[0])
    assert rate.rate() is None
    for minute in range(120):
        now_s[0] = minute * 60
        rate.count(is_hit=minute >= 60)
        rate.count(is_hit=False)
    assert rate.rate() == 0.5
    now_s[0] += 30 * 60
    rate.count(is_hit=False)
    assert rate.rate() == pytest.approx(30 / 61)
    assert len(rate._minutes) <= 60


def test_counts_are_added() -> None:
    total = Counts(num_hits=1, num_restores=5)
    total.add(Counts(num_hits=2, num_tokens_saved=9))
    assert total == Counts(num_hits=3, num_restores=5, num_tokens_saved=9)


def head(parent: str, start: int, token_ids: list[int]) -> PieceHead:
    key = piece_key(parent, "block", token_ids, start=start)
    return PieceHead(key, parent, "block", start, tuple(token_ids))


def test_heads_come_parents_first_and_longer_ones_before_shorter() -> None:
    short, long = head(ROOT, 0, [1, 2]), head(ROOT, 0, [1, 2, 3])
    child = head(long.key, 3, [4])
    grandchild = head(child.key, 4, [5])
    orphan = head("00" * 16, 4, [5])
    misnamed = PieceHead(child.key, ROOT, "block", 0, (9,))
    heads = [grandchild, short, orphan, child, misnamed, long]
    assert [found for found, _ in parents_first(heads, ROOT)] == [long, short, child, grandchild]
