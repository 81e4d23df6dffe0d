"""The request bodies as they come over the wire: names and JSON types, no meaning.

Every optional field may be null, and a field that isn't here is skipped unread. What the fields
mean, and which of them are refused, is in `fields`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class ImageUrl(msgspec.Struct, frozen=True, kw_only=True):
    url: str | None = None


class ContentPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message. Media but images are skipped: they are refused by their type."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | str | None = None
    file_id: str | None = None


Content = str | list[ContentPart] | None


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments should be JSON text; some clients send the object itself."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CustomCall(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    input: str | None = None


class ToolCallItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str | None = None
    function: FunctionCall | None = None
    custom: CustomCall | None = None


class MessageItem(msgspec.Struct, frozen=True, kw_only=True):
    role: str | None = None
    content: Content = None
    name: str | None = None
    refusal: str | None = None
    audio: Any = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallItem] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None


class InputItem(MessageItem, frozen=True, kw_only=True):
    """An item of the Responses API's ``input``: a message, or a call or its result."""

    type: str | None = None
    call_id: str | None = None
    arguments: str | dict[str, Any] | None = None
    output: Content = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    include_usage: bool | None = None


class SchemaFormat(msgspec.Struct, frozen=True, kw_only=True):
    """``strict`` asks for what is done anyway."""

    name: str | None = None
    schema: dict[str, Any] | bool | None = None
    strict: bool | None = None


class Format(SchemaFormat, frozen=True, kw_only=True):
    """The schema lies one level down in chat; in the Responses API's shape, and in llama.cpp's
    json_object, beside the type."""

    type: str | None = None
    json_schema: SchemaFormat | None = None


class StructuredOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """vLLM's one field for all constraints."""

    json: dict[str, Any] | bool | str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: Any = None


class FunctionDefinition(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolItem(FunctionDefinition, frozen=True, kw_only=True):
    """The Responses API has the function's fields beside the type, chat one level down."""

    type: str | None = None
    function: FunctionDefinition | None = None


class NamedFunction(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None


class ChosenTool(NamedFunction, frozen=True, kw_only=True):
    type: str | None = None
    function: NamedFunction | None = None


class AllowedTools(msgspec.Struct, frozen=True, kw_only=True):
    mode: str | None = None
    tools: list[ChosenTool] | None = None


class ToolChoiceItem(ChosenTool, frozen=True, kw_only=True):
    """A named tool, or some of them. The Responses API has the list beside the type."""

    allowed_tools: AllowedTools | None = None
    mode: str | None = None
    tools: list[ChosenTool] | None = None


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """Anthropic's and DeepSeek's form of the switch, which clients send to any server."""

    type: str | None = None
    budget_tokens: int | None = None


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    format: Format | None = None


class ReasoningOptions(msgspec.Struct, frozen=True, kw_only=True):
    effort: str | None = None


class GenerationBody(msgspec.Struct, frozen=True, kw_only=True):
    """What the two endpoints share."""

    model: str | None = None
    adapters: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    cache: bool | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: Format | None = None
    json_schema: dict[str, Any] | bool | str | None = None
    grammar: str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    structured_outputs: StructuredOutputs | None = None


class ChatBody(GenerationBody, frozen=True, kw_only=True):
    messages: list[MessageItem] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    enable_thinking: bool | None = None
    thinking: bool | Thinking | None = None
    thinking_budget: int | None = None
    thinking_token_budget: int | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    chat_template: Any = None

    tools: list[ToolItem] | None = None
    tool_choice: str | ToolChoiceItem | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionDefinition] | None = None
    function_call: str | NamedFunction | None = None
    modalities: list[str] | None = None
    audio: Any = None
    moderation: Any = None
    web_search_options: Any = None


class ResponsesBody(ChatBody, frozen=True, kw_only=True):
    """The Responses API's names, which some clients send to the chat endpoint. Read only where
    ``messages`` is absent, so that beside messages they are unknown fields like any other."""

    input: str | list[InputItem] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    reasoning: ReasoningOptions | None = None
    text: TextOptions | None = None
    previous_response_id: Any = None
    conversation: Any = None


class CompletionBody(GenerationBody, frozen=True, kw_only=True):
    prompt: str | list[str | int | list[int]] | None = None
    suffix: str | None = None
    echo: bool | None = None
    logprobs: int | None = None
    best_of: int | None = None
