"""The Responses API's answers as they go over the wire: the types of what the writers make.

The document at ``/openapi.json`` is made from them. Items, parts and events of all types are one
type each: a key that is `NotRequired` belongs to some of them. Items of a request's input come back
as they were sent, so that they may have other keys too.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from maxi_mlx.api.openai.answer_schema import ScoredToken

Status = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class Part(TypedDict):
    type: Literal["output_text", "reasoning_text", "summary_text"]
    text: str
    annotations: NotRequired[list[Any]]
    logprobs: NotRequired[list[ScoredToken]]


class OutputItem(TypedDict):
    type: Literal["message", "reasoning", "function_call", "custom_tool_call"]
    id: str
    status: ItemStatus
    role: NotRequired[Literal["assistant"]]
    content: NotRequired[list[Part]]
    summary: NotRequired[list[Part]]
    call_id: NotRequired[str]
    name: NotRequired[str]
    namespace: NotRequired[str]
    arguments: NotRequired[str]
    input: NotRequired[str]


class InputDetails(TypedDict):
    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(TypedDict):
    reasoning_tokens: int


class UsageItem(TypedDict):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ErrorItem(TypedDict):
    code: str
    message: str


class IncompleteDetails(TypedDict):
    reason: Literal["max_output_tokens"]


class ReasoningItem(TypedDict):
    effort: str | None
    summary: str | None


class TextItem(TypedDict):
    format: dict[str, Any]
    verbosity: str | None


class Repeated(TypedDict):
    """The request's fields that the response repeats."""

    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: ReasoningItem
    safety_identifier: str | None
    store: bool
    background: bool
    temperature: float | None
    top_p: float | None
    presence_penalty: float
    frequency_penalty: float
    text: TextItem
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    truncation: Literal["auto", "disabled"]
    user: str | None


class Unused(TypedDict):
    """The keys that OpenAI's schema wants even where there is nothing to say."""

    conversation: None
    max_tool_calls: None
    prompt: None
    prompt_cache_retention: None
    service_tier: Literal["default"]


class ResponseObject(Repeated, Unused):
    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Status
    error: ErrorItem | None
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[OutputItem]
    usage: UsageItem | None


class StreamEvent(TypedDict):
    """``type`` begins with ``response.``; the numbers rise by one from 0."""

    type: str
    sequence_number: int
    response: NotRequired[ResponseObject]
    output_index: NotRequired[int]
    item: NotRequired[OutputItem]
    item_id: NotRequired[str]
    content_index: NotRequired[int]
    summary_index: NotRequired[int]
    part: NotRequired[Part]
    delta: NotRequired[str]
    text: NotRequired[str]
    logprobs: NotRequired[list[ScoredToken]]
    arguments: NotRequired[str]
    name: NotRequired[str]
    input: NotRequired[str]


class DeletedResponse(TypedDict):
    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemPage(TypedDict):
    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class TokenCount(TypedDict):
    object: Literal["response.input_tokens"]
    input_tokens: int
