"""The request bodies as they come over the wire: names and JSON types, no meaning.

Every optional field may be null, and a field that isn't here is skipped unread. What the fields
mean, and which of them are refused, is in `fields`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A block of content of whatever type. Media are skipped, not decoded: they are refused by
    their type. Results of server tools are objects, which nobody reads here."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | str | None = None
    tool_use_id: str | None = None
    content: str | list[Block] | dict[str, Any] | None = None
    is_error: bool | None = None
    source: dict[str, Any] | str | None = None
    title: str | None = None
    context: str | None = None


Content = str | list[Block] | None


class MessageItem(msgspec.Struct, frozen=True, kw_only=True):
    role: str | None = None
    content: Content = None


class ToolItem(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class ToolChoiceItem(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    budget_tokens: int | None = None
    display: str | None = None


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    schema: dict[str, Any] | None = None


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    effort: str | None = None
    format: OutputFormat | None = None


class CountBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a count of tokens depends on."""

    model: str | None = None
    messages: list[MessageItem] | None = None
    system: Content = None
    tools: list[ToolItem] | None = None
    tool_choice: ToolChoiceItem | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    mcp_servers: list[Any] | None = None


class MessagesBody(CountBody, frozen=True, kw_only=True):
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    container: Any = None
    thread: Any = None
