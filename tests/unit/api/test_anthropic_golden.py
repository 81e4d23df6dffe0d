"""Whole streams and messages, byte for byte, as files that a person can read.

After a change that is meant: ``python -m tests.unit.api.test_anthropic_golden`` writes them anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.api.anthropic import MessageAnswer, MessageStreamWriter
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

from .event_streams import BROKEN, CALLS, PLAIN, TIMINGS

GOLDEN = Path(__file__).parent / "golden_anthropic"
HEAD: dict[str, Any] = {"id": "msg_1", "model": "tiny"}

# A call that max_tokens cut in its arguments, after a thought between two texts.
CUT: list[Event] = [
    Started("tiny", 9),
    TextDelta(0, "Well. "),
    ReasoningDelta(0, "Now?"),
    TextDelta(0, "Yes."),
    ToolCallStart(0, 0, "call_1", "get_weather"),
    ToolCallDelta(0, 0, '{"city": "Zü'),
    Finished(0, "length", None, 64),
    Completed(Usage(prompt_tokens=9, completion_tokens=64, reasoning_tokens=4), TIMINGS),
]
SHORT: list[Event] = [
    Started("tiny", 9),
    TextDelta(0, "Hal"),
    Finished(0, "length", None, 1),
    Completed(Usage(prompt_tokens=9, completion_tokens=1, cached_tokens=8), TIMINGS),
]

CASES: dict[str, tuple[dict[str, Any], list[Event]]] = {
    "plain": ({}, PLAIN),
    "calls": ({}, CALLS),
    "hidden_thought": ({"shows_thoughts": False}, CALLS),
    "cut_call": ({"max_tokens": 64}, CUT),
    "context_end": ({}, SHORT),
    "no_answer": ({"max_tokens": 0}, SHORT),
}
STREAMED = {**CASES, "broken": ({}, BROKEN)}
FILES = {**{f"{name}.sse": name for name in STREAMED}, **{f"{name}.json": name for name in CASES}}


def written(file: str) -> bytes:
    more, events = STREAMED[FILES[file]]
    options = {**HEAD, "max_tokens": 100, "shows_thoughts": True, **more}
    if file.endswith(".sse"):
        writer = MessageStreamWriter(**options, request_id="req-1")
        return writer.start() + b"".join(writer.event(event) for event in events)
    answer = MessageAnswer(**options)
    for event in events:
        answer.feed(event)
    return answer.body() + b"\n"


@pytest.mark.parametrize("file", FILES)
@pytest.mark.clients(65, 66, 67, 68, 69, 74, 77)
def test_golden(file: str) -> None:
    assert written(file) == (GOLDEN / file).read_bytes()


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(FILES)


if __name__ == "__main__":
    for each in FILES:
        (GOLDEN / each).write_bytes(written(each))
