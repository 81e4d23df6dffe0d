"""Whole streams and bodies, byte for byte, as files that a person can read.

After a change that is meant: ``python -m tests.unit.api.test_openai_golden`` writes them anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.api.openai import (
    Answer,
    ChatAnswer,
    ChatStreamWriter,
    CompletionAnswer,
    CompletionStreamWriter,
    StreamWriter,
)
from maxi_mlx.core.events import Event

from .event_streams import BROKEN, CALLS, PLAIN, TOKENS

GOLDEN = Path(__file__).parent / "golden"
HEAD: dict[str, Any] = {"id": "x-1", "created": 1700000000, "model": "tiny"}
PAIR = {"num_choices": 2, "logprobs": True}

CASES: dict[str, tuple[type[StreamWriter] | type[Answer], dict[str, Any], list[Event]]] = {
    "chat.sse": (ChatStreamWriter, {}, PLAIN),
    "chat_usage.sse": (
        ChatStreamWriter,
        {"include_usage": True, "system_fingerprint": "fp_1"},
        PLAIN,
    ),
    "chat_logprobs.sse": (ChatStreamWriter, PAIR, TOKENS),
    "chat_two_choices.sse": (ChatStreamWriter, {"num_choices": 2}, TOKENS),
    "chat_calls.sse": (ChatStreamWriter, {"include_usage": True}, CALLS),
    "chat_functions.sse": (ChatStreamWriter, {"legacy_functions": True}, CALLS),
    "chat_broken.sse": (ChatStreamWriter, {"include_usage": True}, BROKEN),
    "chat.json": (ChatAnswer, {"system_fingerprint": "fp_1"}, PLAIN),
    "chat_calls.json": (ChatAnswer, {}, CALLS),
    "chat_functions.json": (ChatAnswer, {"legacy_functions": True}, CALLS),
    "chat_logprobs.json": (ChatAnswer, PAIR, TOKENS),
    "completion.sse": (CompletionStreamWriter, {}, PLAIN),
    "completion_usage.sse": (CompletionStreamWriter, {"include_usage": True}, PLAIN),
    "completion_logprobs.sse": (CompletionStreamWriter, PAIR, TOKENS),
    "completion_broken.sse": (CompletionStreamWriter, {}, BROKEN),
    "completion.json": (CompletionAnswer, {}, PLAIN),
    "completion_logprobs.json": (CompletionAnswer, PAIR, TOKENS),
}


def written(name: str) -> bytes:
    kind, options, events = CASES[name]
    writer = kind(**HEAD, **options)
    if isinstance(writer, StreamWriter):
        return writer.start() + b"".join(writer.event(event) for event in events)
    for event in events:
        writer.feed(event)
    return writer.body() + b"\n"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.clients(3, 6, 7, 8, 10, 16, 18, 22, 63)
def test_golden(name: str) -> None:
    assert written(name) == (GOLDEN / name).read_bytes()


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(CASES)


if __name__ == "__main__":
    for case in CASES:
        (GOLDEN / case).write_bytes(written(case))
