"""The Responses API's bodies as they come over the wire: names and JSON types, no meaning.

What the fields mean, and which of them are refused, is in `fields`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maxi_mlx.api.openai.schema import (
    ChosenTool,
    ContentPart,
    Format,
    FunctionDefinition,
    GenerationBody,
    InputItem,
    Thinking,
)


class Item(InputItem, frozen=True, kw_only=True):
    """An item of ``input``, or one kept of an earlier response. ``input`` is a custom call's
    text, ``summary`` and ``content`` hold a thought."""

    id: str | None = None
    namespace: str | None = None
    input: str | None = None
    summary: list[ContentPart] | None = None


class InputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The form of a custom tool's input."""

    type: str | None = None
    syntax: str | None = None
    definition: str | None = None


class ToolSpec(FunctionDefinition, frozen=True, kw_only=True):
    """A tool of any type; ``function`` is chat's way to write one, ``tools`` a namespace's."""

    type: str | None = None
    function: FunctionDefinition | None = None
    format: InputFormat | None = None
    tools: list[ToolSpec] | None = None


class ToolName(ChosenTool, frozen=True, kw_only=True):
    namespace: str | None = None


class ToolChoiceSpec(ToolName, frozen=True, kw_only=True):
    """A named tool, or with type ``allowed_tools`` some of them."""

    mode: str | None = None
    tools: list[ToolName] | None = None


class ReasoningSpec(msgspec.Struct, frozen=True, kw_only=True):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None  # the older name


class TextSpec(msgspec.Struct, frozen=True, kw_only=True):
    format: Format | None = None


class ResponseBody(GenerationBody, frozen=True, kw_only=True):
    input: str | list[Item] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    background: bool | None = None
    truncation: str | None = None
    metadata: dict[str, str] | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None

    tools: list[ToolSpec] | None = None
    tool_choice: str | ToolChoiceSpec | None = None
    parallel_tool_calls: bool | None = None

    text: TextSpec | None = None
    reasoning: ReasoningSpec | None = None
    enable_thinking: bool | None = None
    thinking: bool | Thinking | None = None
    thinking_budget: int | None = None
    thinking_token_budget: int | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    chat_template: Any = None
    conversation: Any = None
    prompt: Any = None
    moderation: Any = None
    context_management: Any = None
