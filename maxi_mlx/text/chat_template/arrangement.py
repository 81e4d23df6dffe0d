"""Conversations made over for templates that take only some: turns joined, split, or told as text.

Pure: a list of messages in, another out. Which of these a template needs is known elsewhere.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from maxi_mlx.core.request import Message
from maxi_mlx.text.tool_calls.prompt import call_text, result_text

APART = "\n\n"  # between texts that are joined into one message

Arrangement = Callable[[Sequence[Message]], list[Message]]


def system_in_front(messages: Sequence[Message]) -> list[Message]:
    """All system texts as one leading message."""
    system = [message.text for message in messages if message.role == "system" and message.text]
    rest = [message for message in messages if message.role != "system"]
    return [Message(role="system", text=APART.join(system)), *rest] if system else rest


def merge_turns(messages: Sequence[Message]) -> list[Message]:
    """For templates that allow one leading system message and strict turns: all system texts in
    front as one, neighbours of one role joined."""
    turns: list[list[Message]] = []
    for message in system_in_front(messages):
        if turns and _can_join(turns[-1][-1], message):
            turns[-1].append(message)
        else:
            turns.append([message])
    return [turn[0] if len(turn) == 1 else _joined(turn) for turn in turns]


def _can_join(last: Message, message: Message) -> bool:
    return (
        last.role == message.role
        and message.role in ("user", "assistant")
        and last.name == message.name
        and not last.tool_calls
        and not message.tool_calls
    )


def _joined(turn: Sequence[Message]) -> Message:
    return Message(
        role=turn[0].role,
        text=APART.join(message.text for message in turn if message.text),
        images=tuple(image for message in turn for image in message.images),
        name=turn[0].name,
        reasoning=APART.join(message.reasoning for message in turn if message.reasoning) or None,
    )


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """For templates without a system role: its text goes to the front of the first user message,
    where there is one at the beginning, and else is one."""
    merged = merge_turns(messages)
    if not merged or merged[0].role != "system":
        return merged
    system, rest = merged[0], merged[1:]
    if rest and rest[0].role == "user":
        text = APART.join(part for part in (system.text, rest[0].text) if part)
        return [replace(rest[0], text=text), *rest[1:]]
    return [Message(role="user", text=system.text), *rest]


def split_calls(messages: Sequence[Message]) -> list[Message]:
    """For templates that take one call a turn: a turn for each, followed by its result."""
    split: list[Message] = []
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if len(message.tool_calls) < 2:
            split.append(message)
            continue
        results = []
        while place < len(messages) and messages[place].role == "tool":
            results.append(messages[place])
            place += 1
        split += _pairs(message, results)
    return split


def _pairs(message: Message, results: Sequence[Message]) -> list[Message]:
    """Results by the id of their call; those without one, in their order."""
    by_id: dict[str, deque[Message]] = defaultdict(deque)
    for result in results:
        by_id[result.tool_call_id or ""].append(result)
    pairs: list[Message] = []
    for index, call in enumerate(message.tool_calls):
        turn = replace(message, tool_calls=(call,))
        pairs.append(turn if index == 0 else replace(turn, text=None, reasoning=None))
        waiting = by_id.get(call.id) or by_id.get("")
        if waiting:
            pairs.append(waiting.popleft())
    return [*pairs, *(result for waiting in by_id.values() for result in waiting)]


def calls_as_text(messages: Sequence[Message], *, keep_results: bool = False) -> list[Message]:
    """For templates that know no tools: calls in the assistant's words, results in the user's.
    Where a template shows results, those are kept as they are."""
    told: list[Message] = []
    results: list[Message] = []
    for message in messages:
        if message.role == "tool" and not keep_results:
            results.append(message)
            continue
        if results:
            told.append(_results_as_text(results))
            results = []
        if message.tool_calls:
            calls = [
                call_text(call.name, call.arguments.strip() or "{}") for call in message.tool_calls
            ]
            text = "\n".join([message.text, *calls] if message.text else calls)
            told.append(replace(message, text=text, tool_calls=()))
        else:
            told.append(message)
    if results:
        told.append(_results_as_text(results))
    return told


def _results_as_text(results: Sequence[Message]) -> Message:
    texts = [result_text(result.text or "", name=result.name) for result in results]
    images = tuple(image for result in results for image in result.images)
    return Message(role="user", text="\n".join(texts), images=images)


def with_system(messages: Sequence[Message], text: str) -> list[Message]:
    """``text`` after the leading system message's own, or as one."""
    if messages and messages[0].role == "system":
        own = APART.join(part for part in (messages[0].text, text) if part)
        return [replace(messages[0], text=own), *messages[1:]]
    return [Message(role="system", text=text), *messages]
