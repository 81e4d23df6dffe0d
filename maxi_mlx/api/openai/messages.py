"""Chat messages of the wire to messages of the core: text and images; other media are refused."""

from __future__ import annotations

from collections.abc import Sequence

from maxi_mlx.api.openai.decode import json_text
from maxi_mlx.api.openai.images import Content, image_of_url, joined
from maxi_mlx.api.openai.schema import Content as WireContent
from maxi_mlx.api.openai.schema import ContentPart, FunctionCall, MessageItem, ToolCallItem
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Image, Message, Role, ToolCall

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_IMAGE_PARTS = frozenset({"image_url", "input_image"})
_MEDIA_PARTS = frozenset(
    {"image", "audio", "input_audio", "audio_url"}
    | {"video", "video_url", "input_video", "file", "input_file"}
)


def messages(items: Sequence[MessageItem] | None) -> tuple[Message, ...]:
    if items is None:
        raise InvalidRequest(
            "'messages' is missing. (A raw prompt goes to /v1/completions.)", param="messages"
        )
    if not items:
        raise InvalidRequest("'messages' is empty; send at least one message.", param="messages")
    return tuple(message(item, f"messages[{index}]") for index, item in enumerate(items))


def message(item: MessageItem, path: str) -> Message:
    if item.role is None:
        raise InvalidRequest(f"'{path}.role' is missing.", param=f"{path}.role")
    role = _ROLES.get(item.role)
    if role is None:
        raise InvalidRequest(
            f"'{path}.role' must be one of {', '.join(_ROLES)}, not {item.role[:40]!r}.",
            param=f"{path}.role",
        )
    if role == "assistant":
        return _assistant(item, path)
    if item.content is None and role != "tool":  # a tool may have had nothing to say
        raise InvalidRequest(f"'{path}.content' is missing.", param=f"{path}.content")
    if role == "system":
        said = Content(text(item.content, f"{path}.content") or "")
    else:
        said = content(item.content, f"{path}.content")
    return Message(
        role=role,
        text=said.text,
        images=said.images,
        name=item.name,
        tool_call_id=item.tool_call_id,
    )


def _assistant(item: MessageItem, path: str) -> Message:
    if item.audio is not None:
        raise InvalidRequest(
            f"'{path}.audio' refers to a spoken answer; this version takes text only.",
            param=f"{path}.audio",
        )
    calls = [
        tool_call(call, f"{path}.tool_calls[{index}]")
        for index, call in enumerate(item.tool_calls or ())
    ]
    if item.function_call is not None:
        calls.append(function_call(item.function_call, f"{path}.function_call", call_id=""))
    said = text(item.content, f"{path}.content")
    if said is None:
        said = item.refusal
    return Message(
        role="assistant",
        # None says "only calls"; an assistant who said nothing at all said the empty text.
        text=said if said is not None or calls else "",
        name=item.name,
        reasoning=item.reasoning_content or item.reasoning or None,
        tool_calls=tuple(calls),
    )


def tool_call(item: ToolCallItem, path: str) -> ToolCall:
    if item.custom is not None:
        if item.custom.name is None:
            raise InvalidRequest(f"'{path}.custom.name' is missing.", param=f"{path}.custom.name")
        return ToolCall(item.id or "", item.custom.name, item.custom.input or "")
    if item.function is None:
        raise InvalidRequest(f"'{path}.function' is missing.", param=f"{path}.function")
    return function_call(item.function, f"{path}.function", call_id=item.id or "")


def function_call(call: FunctionCall, path: str, *, call_id: str) -> ToolCall:
    """A call the model made before. Arguments that aren't JSON stay as the model wrote them."""
    if not call.name:
        raise InvalidRequest(f"'{path}.name' is missing.", param=f"{path}.name")
    arguments = call.arguments
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):
        arguments = json_text(arguments, param=f"{path}.arguments")
    return ToolCall(call_id, call.name, arguments)


def tool_result(output: WireContent, path: str, *, call_id: str | None) -> Message:
    said = content(output, path)
    return Message(role="tool", text=said.text, images=said.images, tool_call_id=call_id)


def text(content: WireContent, path: str) -> str | None:
    """The text of a content without images; parts stand on lines of their own."""
    if content is None or isinstance(content, str):
        return content
    return "\n".join(_part_text(part, f"{path}[{index}]") for index, part in enumerate(content))


def content(content: WireContent, path: str) -> Content:
    """Of a user, or of a tool, who may show images."""
    if content is None or isinstance(content, str):
        return Content(content or "")
    places = [(part, f"{path}[{index}]") for index, part in enumerate(content)]
    return joined(
        [
            _part_image(part, place) if part.type in _IMAGE_PARTS else _part_text(part, place)
            for part, place in places
        ]
    )


def _part_image(part: ContentPart, path: str) -> Image:
    if part.file_id is not None and part.image_url is None:
        raise InvalidRequest(
            f"'{path}.file_id' names a file, and this server keeps none. Send the image itself, as "
            "a data: URL in image_url.",
            param=f"{path}.file_id",
        )
    return image_of_url(part.image_url, f"{path}.image_url")


def _part_text(part: ContentPart, path: str) -> str:
    if part.type in _TEXT_PARTS:
        found, name = part.text, "text"
    elif part.type == "refusal":
        found, name = part.refusal, "refusal"
    elif part.type in _IMAGE_PARTS:
        raise InvalidRequest(
            f"'{path}' is an image, which only a user's message or a tool's result may hold.",
            param=path,
        )
    elif part.type in _MEDIA_PARTS:
        raise InvalidRequest(
            f"'{path}' is a part of type '{part.type}', but this version takes text and images "
            "(image_url) only.",
            param=path,
        )
    else:
        kind = "missing" if part.type is None else f"{part.type[:40]!r}, which is not known"
        raise InvalidRequest(
            f"'{path}.type' is {kind}; send parts of type 'text'.", param=f"{path}.type"
        )
    if found is None:
        raise InvalidRequest(f"'{path}.{name}' is missing.", param=f"{path}.{name}")
    return found
