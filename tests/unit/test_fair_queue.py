"""Requests take turns, however many prompts each has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from maxi_mlx.engine.fair_queue import FairQueue
from maxi_mlx.engine.row import PromptJob


def job(mailbox: str, name: int) -> PromptJob:
    row: Any = SimpleNamespace(mailbox=mailbox)
    return PromptJob(token_ids=[name], rows=[row])


def names(queue: FairQueue) -> list[tuple[Any, int]]:
    taken = []
    while queue:
        first = queue.first()
        assert queue.take() is first
        taken.append((first.mailbox, first.token_ids[0]))
    return taken


def test_requests_take_turns() -> None:
    queue = FairQueue()
    for name in range(3):
        queue.put(job("a", name))
    queue.put(job("b", 10))
    queue.put(job("c", 20))
    queue.put(job("b", 11))
    assert queue.num_rows == 6
    assert names(queue) == [("a", 0), ("b", 10), ("c", 20), ("a", 1), ("b", 11), ("a", 2)]


def test_what_ran_before_comes_first() -> None:
    queue = FairQueue()
    queue.put(job("a", 0))
    queue.put(job("b", 10))
    queue.put_back(job("b", 9))
    queue.put_back(job("c", 20))
    assert names(queue) == [("c", 20), ("b", 9), ("a", 0), ("b", 10)]


def test_a_request_that_left_is_taken_out_whole() -> None:
    queue = FairQueue()
    for name in range(3):
        queue.put(job("a", name))
    queue.put(job("b", 10))
    queue.drop("a")  # type: ignore[arg-type]
    queue.drop("nobody")  # type: ignore[arg-type]
    assert names(queue) == [("b", 10)]
    assert queue.num_rows == 0


def test_clear_hands_everything_out() -> None:
    queue = FairQueue()
    queue.put(job("a", 0))
    queue.put(job("b", 1))
    assert len(queue.clear()) == 2
    assert not queue
