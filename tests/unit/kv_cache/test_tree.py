"""A prompt's way through stored texts, against texts compared token by token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.kv_cache.match import find_match
from maxi_mlx.kv_cache.pieces import decode_tokens, encode_tokens, piece_key, root_key
from maxi_mlx.kv_cache.tree import (
    Node,
    checkpoints_on,
    cut,
    end_of,
    kept_part,
    link,
    new_block,
    new_checkpoint,
    reachable_part,
    shared_bytes,
    way,
)

BLOCK = 3

tokens = st.lists(st.integers(0, 2), max_size=12)
wide_tokens = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=20)


def common(first: list[int], second: list[int]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )


def new_root() -> Node:
    return Node(root_key("a model"), "block", None, 0, arrays={})


def put(root: Node, text: list[int]) -> None:
    """The blocks that a text lacks."""
    uses = way(root, encode_tokens(text))
    host, place = uses[-1].node if uses else root, end_of(uses)
    while place < len(text):
        stop = min(place + BLOCK, len(text))
        host = new_block(host, place, encode_tokens(text[place:stop]))
        host.arrays, host.num_kept = {}, stop - place
        link(host)
        place = stop


@given(wide_tokens)
def test_tokens_are_encoded_and_back(token_ids: list[int]) -> None:
    assert decode_tokens(encode_tokens(token_ids)) == tuple(token_ids)


@given(wide_tokens, wide_tokens)
def test_shared_bytes_are_those_of_whole_tokens(first: list[int], second: list[int]) -> None:
    got = shared_bytes(encode_tokens(first), encode_tokens(second))
    assert got == 4 * common(first, second)


@given(st.lists(tokens, max_size=8), tokens)
def test_the_way_is_as_long_as_any_text_shares(texts: list[list[int]], asked: list[int]) -> None:
    root = new_root()
    for text in texts:
        put(root, text)
    for text in [*texts, asked]:
        uses = way(root, encode_tokens(text))
        assert end_of(uses) == max((common(text, other) for other in texts), default=0)
        found = [decode_tokens(use.node.tokens)[: use.num_tokens] for use in uses]
        assert [token for part in found for token in part] == text[: end_of(uses)]
        assert kept_part(uses) == reachable_part(uses) == uses
        for place in range(end_of(uses) + 1):
            assert end_of(cut(uses, place)) == place


@given(st.lists(tokens, max_size=8))
def test_every_token_is_there_once(texts: list[list[int]]) -> None:
    root = new_root()
    for text in texts:
        put(root, text)
    prefixes = {tuple(text[:n]) for text in texts for n in range(1, len(text) + 1)}
    assert sum(node.num_tokens for node in root.below()) == len(prefixes)
    assert len({node.key for node in root.below()}) == len(list(root.below()))


def chain(*lengths: int) -> list[Node]:
    nodes = [new_root()]
    for length in lengths:
        place = nodes[-1].end
        nodes.append(new_block(nodes[-1], place, encode_tokens(range(place, place + length))))
        nodes[-1].arrays, nodes[-1].num_kept = {}, length
        link(nodes[-1])
    return nodes


def test_what_is_in_memory_ends_where_a_piece_is_not() -> None:
    root, first, second, third = chain(4, 4, 4)
    uses = way(root, encode_tokens(range(20)))
    assert end_of(kept_part(uses)) == 12
    second.num_kept, second.is_on_disk = 2, True
    third.arrays, third.num_kept, third.is_on_disk = None, 0, True
    assert end_of(kept_part(uses)) == 6
    assert end_of(reachable_part(uses)) == 12
    second.is_on_disk = False
    assert end_of(reachable_part(uses)) == 6
    first.arrays, first.num_kept = None, 0
    assert kept_part(uses) == []
    assert reachable_part(uses) == []


def test_checkpoints_on_the_way_are_those_before_it_leaves() -> None:
    root, first, second = chain(4, 4)
    for host, place in ((first, 2), (first, 4), (second, 5), (second, 8)):
        link(new_checkpoint(host, place))
    aside = new_block(second, 7, encode_tokens([99, 98]))
    link(aside)
    link(new_checkpoint(aside, 9))

    def places(token_ids: list[int]) -> list[int]:
        return [node.start for node in checkpoints_on(way(root, encode_tokens(token_ids)))]

    assert places(list(range(8))) == [2, 4, 5, 8]
    assert places(list(range(7))) == [2, 4, 5]
    assert places([*range(7), 99, 98]) == [2, 4, 5, 9]
    assert places([*range(3), 99]) == [2]
    assert places([5]) == []


def test_keys_name_all_that_comes_before() -> None:
    root = root_key("a model")
    keys = {
        root,
        root_key("another"),
        piece_key(root, "block", [1, 2]),
        piece_key(root_key("another"), "block", [1, 2]),
        piece_key(root, "block", [1, 2], start=1),
        piece_key(root, "checkpoint", [1, 2]),
        piece_key(root, "block", [2, 1]),
        piece_key(root, "block", [1]),
    }
    assert len(keys) == 8
    assert all(len(key) == 32 for key in keys)


@pytest.mark.parametrize(
    ("asked", "num_tokens", "is_whole"),
    [
        pytest.param(list(range(8)), 8, True, id="all of both"),
        pytest.param(list(range(12)), 8, True, id="all that is stored"),
        pytest.param(list(range(6)), 6, True, id="all that is asked"),
        pytest.param([*range(6), 99], 6, False, id="parts within a block"),
        pytest.param([*range(4), 99], 4, False, id="parts between blocks"),
        pytest.param([99], 0, False, id="nothing"),
    ],
)
def test_a_match_is_whole_where_the_stored_text_ends(
    asked: list[int], num_tokens: int, is_whole: bool
) -> None:
    root = chain(4, 4)[0]
    match = find_match(root, encode_tokens(asked), has_states=False)
    assert (match.num_tokens, match.is_whole) == (num_tokens, is_whole)
    assert match.num_asked == len(asked)
    assert match.keys == ()
