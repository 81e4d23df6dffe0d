"""Streams of messages keep to their order whatever happens, and join into the whole message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from maxi_mlx.api.anthropic import PING, MessageAnswer, MessageStreamWriter
from maxi_mlx.api.anthropic.signature import Thought, hidden_thought
from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.events import (
    Completed,
    Event,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)

from .event_streams import BROKEN, CALLS, PLAIN, TIMINGS, event_streams

HEAD: dict[str, Any] = {"id": "msg_1", "model": "tiny"}


def frames(data: bytes) -> list[dict[str, Any]]:
    """The stream's objects, after checking the form of every frame."""
    assert data.endswith(b"\n\n")
    found = []
    for part in data.removesuffix(b"\n\n").decode().split("\n\n"):
        event, line = part.split("\n")
        value = json.loads(line.removeprefix("data: "))
        assert event == f"event: {value['type']}"
        assert "\u2028" not in line
        found.append(value)
    return found


def streamed(events: list[Event], **more: Any) -> list[dict[str, Any]]:
    options = {**HEAD, "max_tokens": 100, "shows_thoughts": True, **more}
    writer = MessageStreamWriter(**options, request_id="req-1")
    return frames(writer.start() + b"".join(writer.event(event) for event in events))


def whole(events: list[Event], **more: Any) -> dict[str, Any]:
    answer = MessageAnswer(**{**HEAD, "max_tokens": 100, "shows_thoughts": True, **more})
    for event in events:
        answer.feed(event)
    return dict(json.loads(answer.body()))


def joined(stream: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks that the deltas make; asserts that they come as a client may rely on."""
    blocks: list[dict[str, Any]] = []
    is_open = False
    for each in stream:
        match each["type"]:
            case "content_block_start":
                assert (is_open, each["index"]) == (False, len(blocks))
                blocks.append({**each["content_block"], "json": ""})
                is_open = True
            case "content_block_delta":
                assert (is_open, each["index"]) == (True, len(blocks) - 1)
                for name, value in each["delta"].items():
                    if name != "type":
                        assert value
                        where = "json" if name == "partial_json" else name
                        blocks[-1][where] += value
            case "content_block_stop":
                assert (is_open, each["index"]) == (True, len(blocks) - 1)
                is_open = False
    assert not is_open
    return blocks


def compared(block: dict[str, Any]) -> dict[str, Any]:
    """Without what a cut or odd call makes differ: its arguments."""
    return {name: value for name, value in block.items() if name not in ("json", "input")}


@pytest.mark.clients(65, 67, 68, 69)
@given(stream=event_streams(is_chat=True))
def test_any_stream_joins_into_the_whole_message(stream: tuple[int, list[Event]]) -> None:
    events = [event for event in stream[1] if getattr(event, "choice", 0) == 0]
    written = streamed(events)
    assert [each["type"] for each in written[:2]] == ["message_start", "ping"]
    assert [each["type"] for each in written[-2:]] == ["message_delta", "message_stop"]
    message = whole(events)
    assert list(map(compared, joined(written))) == list(map(compared, message["content"]))
    assert written[-2]["delta"] == {
        "stop_reason": message["stop_reason"],
        "stop_sequence": message["stop_sequence"],
    }
    assert written[-2]["usage"].items() <= message["usage"].items()


@pytest.mark.clients(69)
def test_arguments_in_pieces_are_the_input_of_the_whole() -> None:
    pieces = [block["json"] for block in joined(streamed(CALLS)) if block["type"] == "tool_use"]
    inputs = [block["input"] for block in whole(CALLS)["content"] if block["type"] == "tool_use"]
    assert [json.loads(piece) for piece in pieces] == inputs == [{"city": "Zürich"}, {}]


def end(*events: Event, reason: Any = "stop", stop: str | None = None, num: int = 5) -> list[Event]:
    usage = Usage(prompt_tokens=9, completion_tokens=num, cached_tokens=4, reasoning_tokens=2)
    return [Started("m", 9), *events, Finished(0, reason, stop, num), Completed(usage, TIMINGS)]


@pytest.mark.clients(68, 77)
@pytest.mark.parametrize(
    ("events", "max_tokens", "reason", "stop"),
    [
        (end(), 9, "end_turn", None),
        (end(stop="END"), 9, "stop_sequence", "END"),
        (end(reason="tool_calls"), 9, "tool_use", None),
        (end(reason="length", num=9), 9, "max_tokens", None),
        (end(reason="length", num=8), 9, "model_context_window_exceeded", None),
        (end(), 0, "max_tokens", None),
    ],
    ids=["end", "stop", "tools", "limit", "context", "nothing asked for"],
)
def test_why_an_answer_ended(
    events: list[Event], max_tokens: int, reason: str, stop: str | None
) -> None:
    wanted = {"stop_reason": reason, "stop_sequence": stop}
    assert streamed(events, max_tokens=max_tokens)[-2]["delta"] == wanted
    assert wanted.items() <= whole(events, max_tokens=max_tokens).items()


@pytest.mark.clients(66, 68)
def test_tokens_from_the_cache_are_counted_apart() -> None:
    usage = whole(end())["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (5, 4)
    assert usage["cache_creation_input_tokens"] == 0
    assert (usage["output_tokens"], usage["output_tokens_details"]["thinking_tokens"]) == (5, 2)
    first, *_, delta, _ = streamed(end())
    assert first["message"]["usage"]["input_tokens"] == 9
    assert first["message"]["content"] == []
    assert delta["usage"]["input_tokens"] == 5


def test_what_nobody_asked_for_is_not_told() -> None:
    events = end(ReasoningDelta(0, "a"), TextDelta(0, "b"), ToolCallStart(0, 0, "c", "d"))
    message = whole(events, max_tokens=0)
    assert (message["content"], message["usage"]["output_tokens"]) == ([], 0)
    assert joined(streamed(events, max_tokens=0)) == []


@pytest.mark.parametrize("arguments", ['{"a": "x', "[1]", "oops", "", "  ", "[" * 100_000])
def test_input_is_an_object_whatever_was_written(arguments: str) -> None:
    call = (ToolCallStart(0, 0, "c", "f"), ToolCallDelta(0, 0, arguments))
    assert whole(end(*call, reason="length"))["content"][0]["input"] == {}


def test_half_an_answer_is_an_error() -> None:
    with pytest.raises(EngineFailed):
        whole(BROKEN)
    with pytest.raises(EngineFailed, match="before the answer was complete"):
        whole(PLAIN[:-1])


@pytest.mark.clients(47)
def test_an_error_in_the_stream_is_its_last_event() -> None:
    *_, last = streamed(BROKEN)
    assert last["error"] == {"type": "api_error", "message": 'The device said "no".\nTry again.'}
    assert last["request_id"] == "req-1"


@pytest.mark.clients(79)
def test_a_ping_is_an_event() -> None:
    assert frames(PING) == [{"type": "ping"}]


@pytest.mark.parametrize("text", ["", "Hm.", "é😀\n" * 100])
def test_a_hidden_thought_comes_back_by_its_signature(text: str) -> None:
    hidden, shown = Thought(is_shown=False), Thought(is_shown=True)
    for piece in text:
        hidden.add(piece)
        shown.add(piece)
    assert hidden_thought(hidden.signature) == text
    assert hidden_thought(shown.signature) is None


@pytest.mark.parametrize("signature", ["", "hidden.???", "hidden./w==", "hidden.é", "EqQBCkYI"])
def test_a_foreign_signature_carries_nothing(signature: str) -> None:
    assert hidden_thought(signature) is None
