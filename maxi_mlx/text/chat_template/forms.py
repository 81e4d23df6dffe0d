"""Messages and tools as the dictionaries that templates read, in the form one template wants."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from maxi_mlx.core.request import IMAGE_MARK, Message, Tool, ToolCall

Arguments = Literal["object", "text"]
EmptyContent = Literal["text", "null", "absent"]

_SHORT_ID_CHARS = 9  # what Mistral's templates insist on
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one template wants its input written.

    ``arguments``: a call's, as an object or as JSON text. ``empty_content``: the content of a turn
    that has just calls; "absent" leaves the key out. ``short_ids``: call ids of nine letters and
    digits. ``content``: a text, or a list of one part. ``describes_all``: a tool without a
    description has an empty one. ``tools_name`` is the variable that tools are looked for in.
    ``image_text`` is what stands for an image in a text; None: images are parts of their own.
    """

    arguments: Arguments = "object"
    empty_content: EmptyContent = "text"
    short_ids: bool = False
    content: Literal["text", "parts"] = "text"
    describes_all: bool = False
    tools_name: str = "tools"
    image_text: str | None = None


def template_messages(messages: Sequence[Message], form: Form) -> list[dict[str, Any]]:
    """Results without an id get the one of the call that they answer, by their order; a result
    gets the name of its call, which some templates write."""
    written = []
    open_calls: list[ToolCall] = []
    number = 0
    for message in messages:
        if message.role == "tool":
            written.append(_result(message, form, call=_take(open_calls, message)))
            continue
        calls = []
        for call in message.tool_calls:
            calls.append(call if call.id else ToolCall(f"call_{number}", call.name, call.arguments))
            number += 1
        if calls:
            open_calls = list(calls)
        written.append(_turn(message, form, calls=calls))
    return written


def _take(open_calls: list[ToolCall], result: Message) -> ToolCall | None:
    """The call that a result answers: by its id, else by its name, else the next."""
    for wanted, known in (
        (result.tool_call_id, [call.id for call in open_calls]),
        (result.name, [call.name for call in open_calls]),
    ):
        if wanted and wanted in known:
            return open_calls.pop(known.index(wanted))
    if open_calls and not result.tool_call_id:
        return open_calls.pop(0)
    return None


def _turn(message: Message, form: Form, *, calls: Sequence[ToolCall]) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role}
    if message.text or not calls or form.empty_content == "text":
        written["content"] = _content(message, form)
    elif form.empty_content == "null":
        written["content"] = None
    if message.name is not None:
        written["name"] = message.name
    if message.reasoning is not None:
        # Two families read it under another name.
        written["reasoning_content"] = written["thinking"] = message.reasoning
    if calls:
        written["tool_calls"] = [
            {
                "id": _id(call.id, form),
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments, form)},
            }
            for call in calls
        ]
    return written


def _result(message: Message, form: Form, *, call: ToolCall | None) -> dict[str, Any]:
    written = {"role": "tool", "content": _content(message, form)}
    name = message.name or (call.name if call is not None else None)
    call_id = message.tool_call_id or (call.id if call is not None else None)
    if name is not None:
        written["name"] = name
    if call_id is not None:
        written["tool_call_id"] = _id(call_id, form)
    return written


def _content(message: Message, form: Form) -> Any:
    text = message.text or ""
    if message.images and form.image_text is None:
        return _parts(text)
    if message.images and form.image_text is not None:
        text = text.replace(IMAGE_MARK, form.image_text)
    return text if form.content == "text" else [{"type": "text", "text": text}]


def _parts(text: str) -> list[dict[str, str]]:
    """Texts and images in their order; the image itself is of no use to a template."""
    parts: list[dict[str, str]] = []
    for index, piece in enumerate(text.split(IMAGE_MARK)):
        if index:
            parts.append({"type": "image"})
        if piece:
            parts.append({"type": "text", "text": piece})
    return parts


def _arguments(text: str, form: Form) -> Any:
    """A model may once have written arguments that are no JSON; the template gets them as text."""
    if form.arguments == "text":
        return text
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def _id(call_id: str, form: Form) -> str:
    if not form.short_ids:
        return call_id
    return short_id(call_id)


def short_id(call_id: str) -> str:
    """Nine letters and digits, the same for the same id; one that has that form stays."""
    if len(call_id) == _SHORT_ID_CHARS and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest(), "big")
    letters = []
    for _ in range(_SHORT_ID_CHARS):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)


def template_tools(tools: Sequence[Tool], form: Form) -> list[dict[str, Any]]:
    return [template_tool(tool, form) for tool in tools]


def tool_variables(tools: Sequence[Tool], form: Form) -> dict[str, Any]:
    """The tools under a name of the template's own, beside the usual one."""
    if form.tools_name == "tools" or not tools:
        return {}
    return {form.tools_name: [tool["function"] for tool in template_tools(tools, form)]}


def template_tool(tool: Tool, form: Form) -> dict[str, Any]:
    """Always with parameters: templates read their properties without asking."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None or form.describes_all:
        function["description"] = tool.description or ""
    function["parameters"] = _parameters(tool.parameters)
    return {"type": "function", "function": function}


def _parameters(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"type": "object", "properties": {}, **(schema or {})}
