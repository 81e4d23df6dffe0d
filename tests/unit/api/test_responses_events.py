"""Events to responses: whole streams as files, and what holds of every stream.

After a change that is meant: ``python -m tests.unit.api.test_responses_events`` writes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from maxi_mlx.api.responses import (
    Response,
    ResponseCall,
    ResponseStream,
    parse_response,
    read_response,
)
from maxi_mlx.core.errors import ContextTooLong, MaxiError, Overloaded, Unavailable
from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    Started,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)

from .event_streams import BROKEN, CALLS, PLAIN, TIMINGS, TOKENS, event_streams

GOLDEN = Path(__file__).parent / "golden_responses"
LOGPROBS = {"include": ["message.output_text.logprobs"]}
PATCH = {"type": "custom", "name": "apply_patch"}
AGENTS = {"type": "namespace", "name": "agents", "description": "d", "tools": [PATCH]}


def of_first(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if getattr(event, "choice", 0) == 0]


def as_engines_do(events: Sequence[Event]) -> list[Event]:
    """Without arguments that come when their call is over."""
    found: list[Event] = []
    for event in of_first(events):
        if isinstance(event, ToolCallDelta) and not isinstance(
            found[-1], ToolCallStart | ToolCallDelta
        ):
            continue
        found.append(event)
    return found


CUSTOM: list[Event] = [
    Started("tiny", 9),
    ToolCallStart(0, 0, "call_1", "agents__apply_patch"),
    ToolCallDelta(0, 0, '{"input": "*** Begin'),
    ToolCallDelta(0, 0, ' Patch\\n"}'),
    Finished(0, "tool_calls", None, 12),
    Completed(Usage(9, 12), TIMINGS),
]
SILENT: list[Event] = [
    Started("tiny", 9),
    Finished(0, "length", None, 1),
    Completed(Usage(9, 1), TIMINGS),
]
CASES: dict[str, tuple[dict[str, Any], list[Event]]] = {
    "plain": ({"instructions": "be brief", "metadata": {"a": "b"}}, PLAIN),
    "logprobs": (LOGPROBS, of_first(TOKENS)),
    "calls": ({}, CALLS),
    "summary": ({"reasoning": {"summary": "auto"}}, CALLS),
    "custom": ({"tools": [AGENTS]}, CUSTOM),
    "silent": ({}, SILENT),
    "broken": ({}, BROKEN),
}


def called(**fields: Any) -> ResponseCall:
    body = json.dumps({"input": "hi", **fields}).encode()
    return parse_response(read_response(body), request_id="req-00")


def response(**fields: Any) -> Response:
    return Response(called(**fields), id="resp_00", created=1700000000, model="asked")


def streamed(name: str) -> bytes:
    fields, events = CASES[name]
    writer = ResponseStream(response(**fields), model="tiny")
    return writer.start() + b"".join(writer.event(event) for event in events)


@pytest.mark.clients(16, 80, 81, 82, 83, 87, 88)
@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert streamed(name) == (GOLDEN / f"{name}.sse").read_bytes()


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def events_of(data: bytes) -> list[dict[str, Any]]:
    frames = data.decode().split("\n\n")
    assert frames.pop() == ""
    found = []
    for frame in frames:
        kind, _, written = frame.partition("\n")
        event = json.loads(written.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        found.append(event)
    return found


@pytest.mark.clients(5, 80, 81, 82)
@given(event_streams(is_chat=True))
def test_every_stream_tells_the_whole_response(drawn: tuple[int, list[Event]]) -> None:
    events = as_engines_do(drawn[1])
    writer = ResponseStream(response(**LOGPROBS), model="tiny")
    found = events_of(b"".join(writer.event(event) for event in events))
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert [event["type"] for event in found[:2]] == ["response.created", "response.in_progress"]
    final = found[-1]["response"]
    assert found[-1]["type"] == f"response.{final['status']}"
    # Each item comes whole, between its beginning and its end, one after the other.
    items: list[dict[str, Any]] = []
    is_open = False
    deltas = ""
    for event in found[2:-1]:
        match event["type"].removeprefix("response."):
            case "output_item.added":
                assert not is_open
                is_open, deltas = True, ""
            case "output_item.done":
                items.append(event["item"])
                is_open = False
                text = told(event["item"])
                assert text == deltas
            case kind if kind.endswith(".delta"):
                assert is_open
                deltas += event["delta"]
        if "output_index" in event:
            assert event["output_index"] == len(items) - (not is_open)
    assert final["output"] == items
    assert len({item["id"] for item in items}) == len(items)
    # Whole, it is the same.
    whole = response(**LOGPROBS)
    for event in events:
        whole.observe(event)
    assert json.loads(whole.body()) == final


def told(item: dict[str, Any]) -> str:
    if item["type"] == "function_call":
        return str(item["arguments"])
    return "".join(part["text"] for part in item["content"])


ERRORS: dict[str, tuple[MaxiError, str]] = {
    "too long": (ContextTooLong("x"), "context_length_exceeded"),
    "overloaded": (Overloaded("x"), "rate_limit_exceeded"),
    "ours": (Unavailable("x"), "server_error"),
}


@pytest.mark.parametrize(("error", "code"), ERRORS.values(), ids=ERRORS)
def test_a_failure_before_the_first_event(error: MaxiError, code: str) -> None:
    writer = ResponseStream(response(), model="tiny")
    first, *_, last = events_of(writer.event(Failed(error)))
    assert (first["type"], last["type"]) == ("response.created", "response.failed")
    assert last["response"]["error"] == {"code": code, "message": "x"}


def test_a_cancelled_response_keeps_what_was_said() -> None:
    made = response()
    for event in (Started("tiny", 1), TextDelta(0, "Hal")):
        made.observe(event)
    assert made.snapshot()["status"] == "in_progress"
    assert made.snapshot()["output"][0]["content"][0]["text"] == "Hal"
    made.cancel()
    made.observe(Failed(Unavailable("x")))
    final = made.snapshot()
    assert (final["status"], final["error"]) == ("cancelled", None)
    assert final["output"][0]["status"] == "incomplete"
    assert final["output"][0]["content"][0]["text"] == "Hal"


@pytest.mark.parametrize("written", ['{"input": ', "[]", '{"other": 1}', '{"input": 5}'])
def test_a_custom_call_that_is_no_text_stays_as_it_was_written(written: str) -> None:
    made = response(tools=[PATCH])
    made.observe(ToolCallStart(0, 0, "call_1", "apply_patch"))
    made.observe(ToolCallDelta(0, 0, written))
    made.observe(Finished(0, "tool_calls", None, 1))
    assert made.snapshot()["output"][0]["input"] == written


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for case in CASES:
        (GOLDEN / f"{case}.sse").write_bytes(streamed(case))
