"""Commands to the device thread are done or refused, never forgotten."""

from __future__ import annotations

import threading

import pytest

from maxi_mlx.core.errors import EngineFailed, InvalidRequest, Unavailable
from maxi_mlx.engine.inbox import Call, Inbox


class Panic(BaseException):
    """As native libraries raise them."""


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        pytest.param(InvalidRequest("no"), InvalidRequest, "no", id="an error of ours"),
        pytest.param(ValueError("bad"), EngineFailed, "bad", id="any exception"),
        pytest.param(StopIteration(), EngineFailed, "StopIteration", id="StopIteration"),
        pytest.param(Panic("deep down"), EngineFailed, "deep down", id="a panic"),
    ],
)
def test_whatever_a_call_raises_reaches_who_waits(
    error: BaseException, expected: type[Exception], words: str
) -> None:
    def fails() -> None:
        raise error

    call = Call(fails)
    call.run()
    found = call.future.exception(timeout=0)
    assert type(found) is expected
    assert words in str(found)
    # Its frames may hold the weights of a model.
    assert found.__traceback__ is None
    assert found.__cause__ is None


def test_what_is_left_when_it_closes_is_refused_and_what_comes_later_too() -> None:
    inbox = Inbox()
    before, after = Call(lambda: 1), Call(lambda: 2)
    inbox.put(before)
    inbox.close()
    inbox.put(after)
    for call in (before, after):
        with pytest.raises(Unavailable):
            call.future.result(timeout=0)
    assert inbox.take(timeout_s=0) == []


def test_commands_come_in_order_and_wake_who_waits() -> None:
    inbox, taken = Inbox(), []
    thread = threading.Thread(target=lambda: taken.extend(inbox.take(timeout_s=None)))
    thread.start()
    call = Call(lambda: 1)
    inbox.put(call)
    thread.join(timeout=60)
    assert taken == [call]
    calls = [Call(lambda: 1) for _ in range(3)]
    for call in calls:
        inbox.put(call)
    assert inbox.take(timeout_s=None) == calls


def test_a_call_that_nobody_waits_for_any_more_is_not_made() -> None:
    made = []
    call = Call(lambda: made.append(1))
    call.future.cancel()
    call.run()
    assert not made
    left = Call(lambda: made.append(1))
    left.future.cancel()
    left.refuse(Unavailable("no"))
    assert left.future.cancelled()
