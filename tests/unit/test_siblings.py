"""Who waits for whose prompt, and where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.engine.row import PromptJob
from maxi_mlx.engine.siblings import Siblings, shared_prefix

SYSTEM = list(range(100, 200))


def job(*tail: int, base: list[int] = SYSTEM, **changes: Any) -> PromptJob:
    return PromptJob(token_ids=[*base, *tail], rows=[], **changes)


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_the_shared_prefix(first: list[int], second: list[int]) -> None:
    length = shared_prefix(first, second)
    assert first[:length] == second[:length]
    assert first[length : length + 1] != second[length : length + 1] or length == min(
        len(first), len(second)
    )


def test_a_follower_goes_on_where_the_leader_stopped_for_it() -> None:
    siblings, leader, follower = Siblings(), job(1, 2), job(3, 4)
    assert siblings.find_leader(follower, [leader, follower])
    assert siblings.is_waiting(follower)
    assert siblings.is_leading(leader)
    assert siblings.stop_at(leader) == 100
    leader.num_processed = 50
    assert siblings.arrived(leader) == []
    leader.num_processed = 100
    assert siblings.arrived(leader) == [follower]
    assert not siblings.is_waiting(follower)
    assert siblings.stop_at(leader) is None


def test_equal_prompts_share_all_but_the_last_token() -> None:
    siblings, leader, follower = Siblings(), job(1, 2), job(1, 2)
    siblings.find_leader(follower, [leader])
    assert siblings.stop_at(leader) == 101


def test_the_leader_stops_for_each_in_order() -> None:
    siblings, leader = Siblings(), job(*range(50))
    late, early = job(*range(40), 7), job(*range(20), 8)
    for follower in (late, early):
        siblings.find_leader(follower, [leader])
    assert siblings.stop_at(leader) == 120
    leader.num_processed = 120
    assert siblings.arrived(leader) == [early]
    assert siblings.stop_at(leader) == 140


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(job(1, base=[*range(31), *range(900, 960)]), id="too little in common"),
        pytest.param(job(1, 2, num_processed=101), id="read past it"),
        pytest.param(job(1, 2, must_read_alone=True), id="to be read alone"),
    ],
)
def test_who_is_no_leader(other: PromptJob) -> None:
    base = list(range(31)) if other.token_ids[0] == 0 else SYSTEM
    follower = job(3, 4, base=[*base, *([5] * 40 if base is not SYSTEM else [])])
    siblings = Siblings()
    assert not siblings.find_leader(follower, [other])
    assert not siblings.is_waiting(follower)


def test_one_who_waits_leads_nobody() -> None:
    siblings, leader, second, third = Siblings(), job(1), job(2, 3, 4), job(2, 3, 5)
    siblings.find_leader(second, [leader])
    siblings.find_leader(third, [leader, second])
    leader.num_processed = 100
    assert siblings.arrived(leader) == [second, third]


def test_the_ones_left_behind_are_named() -> None:
    siblings, leader, first, second = Siblings(), job(1), job(2), job(3)
    for follower in (first, second):
        siblings.find_leader(follower, [leader])
    assert siblings.forget(first) == []
    assert siblings.forget(leader) == [second]
    assert not siblings.is_waiting(second)
    assert siblings.forget(second) == []


def test_one_who_leads_follows_nobody() -> None:
    """It would jump past the place where its own follower waits."""
    siblings, other = Siblings(), job(*range(80))
    first, second = job(*range(60), 5), job(*range(40), 6)
    assert siblings.find_leader(second, [first])
    assert not siblings.find_leader(first, [other])
    assert siblings.stop_at(first) == 140
