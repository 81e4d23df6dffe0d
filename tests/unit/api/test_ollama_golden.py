"""Whole streams and answers, byte for byte, as files that a person can read.

After a change that is meant: ``python -m tests.unit.api.test_ollama_golden`` writes them anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.api.ollama import (
    ChatAnswer,
    ChatLineWriter,
    GenerateAnswer,
    GenerateLineWriter,
    LineWriter,
    WholeAnswer,
)
from maxi_mlx.core.events import Event
from maxi_mlx.core.request import Message

from .event_streams import BROKEN, CALLS, PLAIN, TOKENS
from .test_anthropic_golden import CUT

GOLDEN = Path(__file__).parent / "golden_ollama"
HEAD: dict[str, Any] = {"model": "tiny", "created_at": "2026-01-02T03:04:05.678901Z"}
HISTORY = (Message(role="user", text="Greet me."),)

# One of the two answers; there are never more here.
SCORED = [event for event in TOKENS if getattr(event, "choice", 1) == 1]

CASES: dict[str, tuple[dict[str, Any], list[Event]]] = {
    "chat_plain": ({}, PLAIN),
    "chat_calls": ({}, CALLS),
    "chat_cut_call": ({}, CUT),
    "chat_logprobs": ({"logprobs": True}, SCORED),
    "generate_plain": ({"history": HISTORY}, PLAIN),
    "generate_raw": ({}, PLAIN),
}
STREAMED = {**CASES, "chat_broken": ({}, BROKEN), "generate_broken": ({}, BROKEN)}
FILES = {
    **{f"{name}.ndjson": name for name in STREAMED},
    **{f"{name}.json": name for name in CASES},
}

WRITERS: dict[str, tuple[type[LineWriter], type[WholeAnswer]]] = {
    "chat": (ChatLineWriter, ChatAnswer),
    "generate": (GenerateLineWriter, GenerateAnswer),
}


def written(file: str) -> bytes:
    more, events = STREAMED[FILES[file]]
    line_writer, whole_answer = WRITERS[file.partition("_")[0]]
    if file.endswith(".ndjson"):
        writer = line_writer(**HEAD, **more)
        return writer.start() + b"".join(writer.event(event) for event in events)
    answer = whole_answer(**HEAD, **more)
    for event in events:
        answer.feed(event)
    return answer.body() + b"\n"


@pytest.mark.parametrize("file", FILES)
def test_golden(file: str) -> None:
    assert written(file) == (GOLDEN / file).read_bytes()


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(FILES)


if __name__ == "__main__":
    for each in FILES:
        (GOLDEN / each).write_bytes(written(each))
