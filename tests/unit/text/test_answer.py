"""Tokens to events, with thoughts, calls, stop strings and log-probabilities at once."""

from __future__ import annotations

import itertools

import pytest

from maxi_mlx.core.events import (
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    ToolCallStart,
)
from maxi_mlx.core.request import Tool
from maxi_mlx.text.answer import AnswerEvent, AnswerText
from maxi_mlx.text.reasoning import ReasoningSplitter
from maxi_mlx.text.reasoning.formats import HARMONY, THINK
from maxi_mlx.text.stop_strings import StopStrings
from maxi_mlx.text.tool_calls import ToolCallReader, syntaxes
from maxi_mlx.text.vocabulary import Vocabulary

NAMES = ["<|end|>", "<think>", "</think>", "<|channel|>", "<|message|>", "<|start|>", "<tool_call>"]
IDS = {name: 256 + i for i, name in enumerate(NAMES)}
# Token i is byte i; then special ones.
BYTES = Vocabulary(
    [*(bytes([i]) for i in range(256)), *(name.encode() for name in NAMES)],
    special_ids=set(IDS.values()),
)
TOOLS = (Tool(name="f", parameters={"type": "object"}),)
CALL = '{"name": "f", "arguments": {"a": "é"}}'


def answer(*stops: str, format: object = None, syntax: object = None) -> AnswerText:
    numbers = itertools.count()
    tags = [*getattr(format, "tags", ()), *getattr(syntax, "tags", ())]
    return AnswerText(
        BYTES,
        StopStrings(stops),
        choice=3,
        splitter=ReasoningSplitter(format, keeps_calls=True) if format else None,  # type: ignore[arg-type]
        reader=ToolCallReader(syntax, TOOLS, new_id=lambda: f"id{next(numbers)}")  # type: ignore[arg-type]
        if syntax
        else None,
        tag_ids=BYTES.special_ids_in(tags),
    )


def token_ids(text: str) -> list[int]:
    """Special tokens where their names stand, bytes elsewhere."""
    ids: list[int] = []
    while text:
        name = next((name for name in NAMES if text.startswith(name)), "")
        ids += [IDS[name]] if name else text[0].encode()
        text = text[len(name) or 1 :]
    return ids


def run(machine: AnswerText, ids: list[int], *, with_logprobs: bool = False) -> list[AnswerEvent]:
    events: list[AnswerEvent] = []
    for i, token_id in enumerate(ids):
        logprob = TokenLogprob(i, "", BYTES.visible(token_id), -1.0) if with_logprobs else None
        events += machine.feed(token_id, logprob)
        if machine.stop_string is not None:
            return events
    return events + machine.finish()


def told(events: list[AnswerEvent]) -> list[str]:
    """Neighbours of a kind joined, each marked by its kind."""
    parts: list[list[str]] = []
    for event in events:
        match event:
            case TextDelta(choice, text, _):
                kind = "text: "
            case ReasoningDelta(choice, text, _):
                kind = "thought: "
            case ToolCallStart(choice, index, id, name):
                kind, text = "call: ", f"{index} {id} {name} "
                parts.append([kind])
            case ToolCallDelta(choice, _, text):
                kind = "call: "
        assert choice == 3
        if not parts or parts[-1][0] != kind:
            parts.append([kind])
        parts[-1].append(text)
    return ["".join(part) for part in parts]


def test_a_thought_a_call_and_text() -> None:
    machine = answer(format=THINK, syntax=syntaxes.JSON_TOOLS)
    text = f"<think>\nHm é\n</think>\n\nI look.\n<tool_call>{CALL}</tool_call>"
    assert told(run(machine, token_ids(text))) == [
        "thought: Hm é",
        "text: I look.",
        'call: 0 id0 f {"a": "é"}',
    ]
    assert machine.num_tool_calls == 1
    assert machine.num_reasoning_tokens == len("<\nHm éé\n<")


def test_harmony_in_special_tokens() -> None:
    machine = answer(format=HARMONY, syntax=syntaxes.HARMONY)
    text = (
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.f json<|message|>{"a": 1}'
    )
    assert told(run(machine, token_ids(text))) == ["thought: Hm", 'call: 0 id0 f {"a": 1}']


def test_tags_are_no_text_where_nothing_reads_them() -> None:
    assert told(run(answer(), token_ids("a<think>b</think>c"))) == ["text: abc"]


@pytest.mark.parametrize(
    ("text", "expected", "stop"),
    [
        ("<think>a STOP b</think>c STOP d", ["thought: a STOP b", "text: c "], "STOP"),
        (
            f"a<tool_call>{CALL.replace('é', 'STOP')}",
            ["text: a", 'call: 0 id0 f {"a": "STOP"}'],
            None,
        ),
        (f"a ST<tool_call>{CALL}", ["text: a ST", 'call: 0 id0 f {"a": "é"}'], None),
        (f"<tool_call>{CALL}</tool_call>STOP", ['call: 0 id0 f {"a": "é"}'], "STOP"),
    ],
    ids=["thought", "call", "held back before a call", "after a call"],
)
def test_stop_strings_are_looked_for_in_what_is_said(
    text: str, expected: list[str], stop: str | None
) -> None:
    machine = answer("STOP", format=THINK, syntax=syntaxes.JSON_TOOLS)
    assert told(run(machine, token_ids(text))) == expected
    assert machine.stop_string == stop


def riding(events: list[AnswerEvent], kind: type) -> bytes:
    """The bytes of the tokens that ride on a kind of event, joined."""
    return b"".join(
        token.data for event in events if isinstance(event, kind) for token in event.tokens
    )


@pytest.mark.parametrize(
    ("text", "content", "thought"),
    [
        ("<think>ab</think>\n\ncé <", "\n\ncé <", "ab"),
        (f"c <tool_call>{CALL}</tool_call>\nd", "c\nd", ""),
        (f"<tool_call>{CALL}</tool_call>", "", ""),
        (f"<think>a</think>b<tool_call>{CALL}", "b", "a"),
        ("a<tool_call>no call</tool_call>b", "ano call</tool_call>b", ""),
        ("é", "é", ""),
    ],
)
def test_tokens_ride_on_what_they_say(text: str, content: str, thought: str) -> None:
    """Special tokens have no bytes to show."""
    machine = answer(format=THINK, syntax=syntaxes.JSON_TOOLS)
    events = run(machine, token_ids(text), with_logprobs=True)
    assert riding(events, TextDelta).decode() == content
    assert riding(events, ReasoningDelta).decode() == thought
    numbers = [t.token_id for e in events if isinstance(e, TextDelta) for t in e.tokens]
    assert numbers == sorted(set(numbers))
