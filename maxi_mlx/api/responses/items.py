"""Items of the Responses API to messages of the core, and to the form in which they are kept.

An item is a part of a conversation with an id: a message, a call, what a tool answered, a thought.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from maxi_mlx.api.openai.messages import function_call, message, tool_result
from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.api.openai.schema import ContentPart, FunctionCall
from maxi_mlx.api.responses.names import CUSTOM_INPUT, prompt_name
from maxi_mlx.api.responses.schema import Item
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Message, ToolCall

RawItem = Mapping[str, Any]

_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
}


@dataclass(frozen=True, slots=True)
class PlacedItem:
    """An item and where it stands in the request, for messages about it."""

    item: Item
    path: str


def is_reference(item: Item) -> bool:
    """A reference has an id and, where it is short, nothing else."""
    if item.type == "item_reference":
        return True
    return item.type is None and item.role is None and item.id is not None


def messages_of(items: Iterable[PlacedItem], instructions: str | None) -> tuple[Message, ...]:
    """``instructions`` and the items as one conversation.

    Calls and thoughts are items of their own here; a chat template wants them on the
    assistant's turn.
    """
    found: list[Message] = []
    if instructions:
        found.append(Message(role="system", text=instructions))
    thought: str | None = None
    for placed in items:
        if placed.item.type == "reasoning":
            thought = _thought(placed) or thought
            continue
        is_new = _add(found, placed, thought=thought)
        if is_new:
            thought = None
    return tuple(found)


def _add(found: list[Message], placed: PlacedItem, *, thought: str | None) -> bool:
    """Whether ``thought`` was of use: it belongs to what the assistant did next."""
    item, path = placed.item, placed.path
    match item.type:
        case None | "message":
            turn = message(item, path)
            if turn.role == "assistant" and thought is not None:
                turn = replace(turn, reasoning=turn.reasoning or thought)
            found.append(turn)
            return True
        case "function_call" | "custom_tool_call":
            call = _call(item, path)
            last = found[-1] if found else None
            if last is not None and last.role == "assistant" and thought is None:
                found[-1] = replace(last, tool_calls=(*last.tool_calls, call))
            else:
                found.append(
                    Message(role="assistant", text=None, reasoning=thought, tool_calls=(call,))
                )
            return True
        case "function_call_output" | "custom_tool_call_output":
            found.append(tool_result(item.output, f"{path}.output", call_id=item.call_id))
            return False
        case unknown:
            raise InvalidRequest(
                f"'{path}.type' is {shown(unknown)!r}; this server takes messages, function and "
                "custom tool calls, their outputs, and reasoning.",
                param=f"{path}.type",
            )


def _call(item: Item, path: str) -> ToolCall:
    arguments: str | dict[str, Any] | None = item.arguments
    if item.type == "custom_tool_call":
        arguments = {CUSTOM_INPUT: item.input or ""}
    name = prompt_name(item.name, item.namespace) if item.name else None
    call = FunctionCall(name=name, arguments=arguments)
    return function_call(call, path, call_id=item.call_id or "")


def _thought(placed: PlacedItem) -> str | None:
    """Its own words, or else the summary; what only its maker can decrypt is nothing here."""
    content = placed.item.content
    parts = [] if isinstance(content, str) else list(content or ())
    own = _joined(parts)
    return (content if isinstance(content, str) else own) or _joined(placed.item.summary or ())


def _joined(parts: Iterable[ContentPart]) -> str:
    return "\n".join(part.text for part in parts if part.text)


# -- the form in which items are kept and listed -------------------------------------------------


def kept_items(raw: str | Sequence[RawItem] | None, *, hex_id: str) -> list[dict[str, Any]]:
    """The new input of a request, complete: every item with an id, a status and, for messages, a
    list of parts. References must be replaced before."""
    if raw is None:
        return []
    if isinstance(raw, str):
        raw = [{"role": "user", "content": raw}]
    return [_kept(item, f"{hex_id}i{index}") for index, item in enumerate(raw)]


def _kept(raw: RawItem, number: str) -> dict[str, Any]:
    item = {name: value for name, value in raw.items() if value is not None}
    kind = item.setdefault("type", "message")
    item.setdefault("id", f"{_PREFIXES.get(kind, 'item')}_{number}")
    if kind == "message":
        item["content"] = _parts(item.get("content"), role=item.get("role"))
    if kind == "reasoning":
        item.setdefault("summary", [])
    else:
        item.setdefault("status", "completed")
    return item


def _parts(content: Any, *, role: Any) -> list[dict[str, Any]]:
    kind = "output_text" if role == "assistant" else "input_text"
    if content is None:
        return []
    parts = [{"text": content}] if isinstance(content, str) else content
    found = []
    for part in parts:
        part = {"type": kind, **part}
        if part["type"] == "text":
            part["type"] = kind
        if part["type"] == "output_text":
            part = {"annotations": [], "logprobs": [], **part}
        found.append(part)
    return found
