"""The request bodies as they come over the wire: names and JSON types, no meaning.

Every optional field may be null, and a field that isn't here is skipped unread. What the fields
mean, and which of them are refused, is in `fields`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maxi_mlx.api.openai.schema import ToolCallItem, ToolItem


class MessageItem(msgspec.Struct, frozen=True, kw_only=True):
    role: str | None = None
    content: str | None = None
    thinking: str | None = None
    images: list[Any] | None = None
    tool_calls: list[ToolCallItem] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OptionsItem(msgspec.Struct, frozen=True, kw_only=True):
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    num_predict: int | None = None


class WritingBody(msgspec.Struct, frozen=True, kw_only=True):
    """What the two endpoints that write text share."""

    model: str | None = None
    options: OptionsItem | None = None
    format: str | dict[str, Any] | None = None
    think: bool | str | None = None
    stream: bool | None = None
    keep_alive: float | str | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class ChatBody(WritingBody, frozen=True, kw_only=True):
    messages: list[MessageItem] | None = None
    tools: list[ToolItem] | None = None


class GenerateBody(WritingBody, frozen=True, kw_only=True):
    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[Any] | None = None


class EmbedBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    keep_alive: float | str | None = None
    input: str | list[str] | None = None
    truncate: bool | None = None
    dimensions: int | None = None


class EmbeddingsBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    keep_alive: float | str | None = None
    prompt: str | None = None


class CopyBody(msgspec.Struct, frozen=True, kw_only=True):
    source: str | None = None
    destination: str | None = None


class NamedBody(msgspec.Struct, frozen=True, kw_only=True):
    """A body that names one model, by the newer or the older name of the field."""

    model: str | None = None
    name: str | None = None
    stream: bool | None = None
