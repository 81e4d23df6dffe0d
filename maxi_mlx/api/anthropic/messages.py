"""Messages of the wire to messages of the core: text and images; other media are refused.

One user turn of the wire may hold results of tools and text; it becomes a message for each result,
and one for the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from maxi_mlx.api.anthropic.schema import Block, MessageItem
from maxi_mlx.api.anthropic.schema import Content as Blocks
from maxi_mlx.api.anthropic.signature import hidden_thought
from maxi_mlx.api.openai.images import Content, image_of_base64, image_of_url, joined
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Image, Message, ToolCall

_MEDIA = frozenset({"audio", "video"})
# What servers' tools leave in a history, and notes between Anthropic's clients and servers.
_SKIPPED = frozenset(
    {"server_tool_use", "mcp_tool_use", "container_upload", "tool_reference", "browser_state"}
    | {"redacted_thinking", "thinking", "compaction", "fallback"}
    | {"tool_addition", "tool_removal", "mcp_tool_listing"}
)
_RESULT = "_tool_result"  # web_search_tool_result, code_execution_tool_result …


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """``prefill`` is how the answer begins, which a last message of the assistant's says."""

    messages: tuple[Message, ...]
    prefill: str | None = None


def conversation(items: Sequence[MessageItem] | None, system: Blocks) -> Conversation:
    if items is None:
        raise InvalidRequest("'messages' is missing.", param="messages")
    if not items:
        raise InvalidRequest("'messages' is empty; send at least one message.", param="messages")
    messages: list[Message] = []
    if system:
        messages.append(Message(role="system", text=_plain_text(system, "system")))
    for index, item in enumerate(items):
        messages += _turn(item, f"messages[{index}]")
    last = messages[-1]
    if last.role != "assistant" or last.tool_calls or not last.text:
        return Conversation(messages=tuple(messages))
    if len(items) == 1:
        raise InvalidRequest(
            "'messages' has nothing to answer: its only message is the assistant's.",
            param="messages",
        )
    return Conversation(messages=tuple(messages[:-1]), prefill=last.text)


def _turn(item: MessageItem, path: str) -> list[Message]:
    content = f"{path}.content"
    if item.content is None:
        raise InvalidRequest(f"'{content}' is missing.", param=content)
    match item.role:
        case "user":
            return _user(item.content, content)
        case "assistant":
            return [_assistant(item.content, content)]
        case "system":
            return [Message(role="system", text=_plain_text(item.content, content))]
        case None:
            raise InvalidRequest(f"'{path}.role' is missing.", param=f"{path}.role")
        case unknown:
            raise InvalidRequest(
                f"'{path}.role' must be user, assistant or system, not {unknown[:40]!r}.",
                param=f"{path}.role",
            )


def _user(content: str | list[Block], path: str) -> list[Message]:
    """Results first, as they follow the calls that they answer."""
    if isinstance(content, str):
        return [Message(role="user", text=content)]
    results: list[Message] = []
    pieces: list[str | Image] = []
    for index, block in enumerate(content):
        place = f"{path}[{index}]"
        if block.type == "tool_result":
            results.append(_tool_result(block, place))
        elif (piece := _piece(block, place)) is not None:
            pieces.append(piece)
    if pieces or not results:
        said = joined(pieces)
        results.append(Message(role="user", text=said.text, images=said.images))
    return results


def _assistant(content: str | list[Block], path: str) -> Message:
    if isinstance(content, str):
        return Message(role="assistant", text=content)
    texts, thoughts, calls = [], [], []
    for index, block in enumerate(content):
        place = f"{path}[{index}]"
        if block.type == "thinking":
            thoughts.append(block.thinking or hidden_thought(block.signature or "") or "")
        elif block.type == "tool_use":
            calls.append(_tool_call(block, place))
        elif (text := _block_text(block, place)) is not None:
            texts.append(text)
    return Message(
        role="assistant",
        # None says "only calls"; an assistant who said nothing at all said the empty text.
        text="\n".join(texts) if texts or not calls else None,
        reasoning="\n".join(thought for thought in thoughts if thought) or None,
        tool_calls=tuple(calls),
    )


def _tool_call(block: Block, path: str) -> ToolCall:
    if not block.name:
        raise InvalidRequest(f"'{path}.name' is missing.", param=f"{path}.name")
    arguments = block.input
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments or {}, ensure_ascii=False)
        except RecursionError:
            raise InvalidRequest(f"'{path}.input' nests too deeply.", param=path) from None
    return ToolCall(block.id or "", block.name, arguments)


def _tool_result(block: Block, path: str) -> Message:
    if not block.tool_use_id:
        raise InvalidRequest(f"'{path}.tool_use_id' is missing.", param=f"{path}.tool_use_id")
    if isinstance(block.content, dict):
        raise InvalidRequest(
            f"'{path}.content' must be a string or a list of blocks.", param=f"{path}.content"
        )
    said = _said(block.content, f"{path}.content")
    text = said.text
    if block.is_error and not text.lower().startswith("error"):
        text = f"Error: {text}" if text else "Error"
    return Message(role="tool", text=text, images=said.images, tool_call_id=block.tool_use_id)


# -- images ------------------------------------------------------------------------------------


def _said(blocks: Blocks, path: str) -> Content:
    if blocks is None or isinstance(blocks, str):
        return Content(blocks or "")
    pieces = [_piece(block, f"{path}[{index}]") for index, block in enumerate(blocks)]
    return joined([piece for piece in pieces if piece is not None])


def _piece(block: Block, path: str) -> str | Image | None:
    return _image(block, path) if block.type == "image" else _block_text(block, path)


def _image(block: Block, path: str) -> Image:
    match block.source:
        case {"type": "base64", "data": str(data)}:
            return image_of_base64(data, f"{path}.source.data")
        case {"type": "url", "url": str(url)}:
            return image_of_url(url, f"{path}.source.url")
        case {"type": str(kind)}:
            raise InvalidRequest(
                f"'{path}' is an image from a source of type {kind[:40]!r}; this server takes "
                "those of type 'base64', with their 'data'.",
                param=f"{path}.source",
            )
        case _:
            raise InvalidRequest(f"'{path}.source' is missing.", param=f"{path}.source")


# -- text --------------------------------------------------------------------------------------


def _plain_text(content: Blocks, path: str) -> str:
    """A content's text; blocks stand on lines of their own."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = [_block_text(block, f"{path}[{index}]") for index, block in enumerate(content)]
    return "\n".join(text for text in texts if text is not None)


def _block_text(block: Block, path: str) -> str | None:
    """None for blocks that only Anthropic's own servers make and read."""
    match block.type:
        case "text":
            if block.text is None:
                raise InvalidRequest(f"'{path}.text' is missing.", param=f"{path}.text")
            return block.text
        case "document":
            return _document(block, path)
        case "search_result":
            source = block.source if isinstance(block.source, str) else None
            found = None if isinstance(block.content, dict) else block.content
            return _titled(block.title, source, _plain_text(found, f"{path}.content"))
        case None:
            raise InvalidRequest(f"'{path}.type' is missing.", param=f"{path}.type")
        case kind if kind in _SKIPPED or kind.endswith(_RESULT):
            return None
        case "image":
            raise InvalidRequest(
                f"'{path}' is an image, which only a user's message or a tool's result may hold.",
                param=path,
            )
        case kind if kind in _MEDIA:
            raise InvalidRequest(
                f"'{path}' is a block of type '{kind}', but this version takes text and images "
                "only.",
                param=path,
            )
        case kind:
            raise InvalidRequest(
                f"'{path}.type' is {kind[:40]!r}, which can't stand there or isn't known; send "
                "blocks of type 'text'.",
                param=f"{path}.type",
            )


def _document(block: Block, path: str) -> str:
    source = block.source if isinstance(block.source, dict) else {}
    match source:
        case {"type": "text", "data": str(data)}:
            return _titled(block.title, block.context, data)
        case {"type": "content", "content": content}:
            try:
                blocks = msgspec.convert(content, str | list[Block])
            except (msgspec.ValidationError, RecursionError):
                raise InvalidRequest(
                    f"'{path}.source.content' must be a string or a list of blocks.",
                    param=f"{path}.source.content",
                ) from None
            text = _plain_text(blocks, f"{path}.source.content")
            return _titled(block.title, block.context, text)
        case _:
            kind = str(source.get("type"))[:40]
            raise InvalidRequest(
                f"'{path}' is a document from a source of type {kind!r}, but this version takes "
                "text only. Send its text, as a source of type 'text'.",
                param=f"{path}.source",
            )


def _titled(*parts: str | None) -> str:
    return "\n\n".join(part for part in parts if part)
