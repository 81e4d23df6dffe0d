"""Anthropic's answers as they go over the wire: the types of what the writers make.

The document at ``/openapi.json`` is made from them. Blocks, deltas and events of all types are one
type each: a key that is `NotRequired` belongs to some of them.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]


class ErrorDetails(TypedDict):
    error_code: str
    unsupported: list[str]


class ErrorItem(TypedDict):
    type: str
    message: str
    details: NotRequired[ErrorDetails]


class ErrorBody(TypedDict):
    """Of an error answer, and of the event where a stream breaks."""

    type: Literal["error"]
    error: ErrorItem
    request_id: str | None


class ThinkingTokens(TypedDict):
    thinking_tokens: int


class UsageItem(TypedDict):
    """``input_tokens`` are those that no cache had."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens
    service_tier: NotRequired[Literal["standard"]]


class StopFields(TypedDict):
    stop_reason: StopReason | None
    stop_sequence: str | None


class ContentBlock(TypedDict):
    type: Literal["text", "thinking", "tool_use"]
    text: NotRequired[str]
    thinking: NotRequired[str]
    signature: NotRequired[str]
    id: NotRequired[str]
    name: NotRequired[str]
    input: NotRequired[dict[str, Any]]


class MessageBody(StopFields):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    usage: UsageItem


class Delta(TypedDict, total=False):
    """Of a block, which has a type; of a message, which has the other two of `StopFields`."""

    type: Literal["text_delta", "thinking_delta", "signature_delta", "input_json_delta"]
    text: str
    thinking: str
    signature: str
    partial_json: str
    stop_reason: StopReason | None
    stop_sequence: str | None


class StreamEvent(TypedDict):
    type: Literal[
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    ]
    message: NotRequired[MessageBody]
    index: NotRequired[int]
    content_block: NotRequired[ContentBlock]
    delta: NotRequired[Delta]
    usage: NotRequired[UsageItem]
    error: NotRequired[ErrorItem]
    request_id: NotRequired[str | None]


class TokenCount(TypedDict):
    input_tokens: int


class ModelItem(TypedDict):
    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int | None
    max_tokens: int | None


class ModelPage(TypedDict):
    data: list[ModelItem]
    has_more: bool
    first_id: str | None
    last_id: str | None
