"""A response that is kept makes the stream that it came from, but for the cut of its texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from maxi_mlx.api.responses import ResponseStream, replay_frames
from maxi_mlx.core.events import Event

from .event_streams import event_streams
from .test_responses_events import CASES, LOGPROBS, as_engines_do, events_of, response, streamed


def joined(data: bytes) -> list[dict[str, Any]]:
    """The events, with all deltas of one text in one."""
    found: list[dict[str, Any]] = []
    for event in events_of(data):
        del event["sequence_number"]
        if event["type"].endswith(".delta") and found[-1]["type"] == event["type"]:
            found[-1]["delta"] += event["delta"]
            if "logprobs" in event:
                found[-1]["logprobs"] += event["logprobs"]
        else:
            found.append(event)
    return found


def replayed(final: dict[str, Any]) -> bytes:
    frames = replay_frames(json.loads(json.dumps(final)))
    numbers = [event["sequence_number"] for event in events_of(b"".join(frames))]
    assert numbers == list(range(len(frames)))
    return b"".join(frames)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"broken"}))
def test_the_stream_again(name: str) -> None:
    first = streamed(name)
    final = events_of(first)[-1]["response"]
    assert joined(replayed(final)) == joined(first)


@given(event_streams(is_chat=True))
def test_any_stream_again(drawn: tuple[int, list[Event]]) -> None:
    writer = ResponseStream(response(**LOGPROBS), model="tiny")
    first = b"".join(writer.event(event) for event in as_engines_do(drawn[1]))
    final = events_of(first)[-1]["response"]
    assert joined(replayed(final)) == joined(first)


def test_one_that_failed_ends_as_it_did() -> None:
    *_, last = events_of(streamed("broken"))
    again = events_of(replayed(last["response"]))
    assert (again[-1]["type"], again[-1]["response"]) == ("response.failed", last["response"])
