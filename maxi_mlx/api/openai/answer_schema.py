"""OpenAI's answers as they go over the wire: the types of what the writers make.

The document at ``/openapi.json`` is made from them. A key that is `NotRequired` is absent where
there is nothing to say.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

FinishWord = Literal["stop", "length", "tool_calls", "function_call"]


class ErrorItem(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(TypedDict):
    """Of an error answer, and of the event where a stream breaks."""

    error: ErrorItem


class CachedTokens(TypedDict):
    cached_tokens: int


class ReasoningTokens(TypedDict):
    reasoning_tokens: int


class UsageItem(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class TokenScore(TypedDict):
    token: str
    logprob: float
    bytes: list[int]


class ScoredToken(TokenScore):
    top_logprobs: list[TokenScore]


class ChatLogprobs(TypedDict):
    content: list[ScoredToken]
    refusal: None


class CalledFunction(TypedDict):
    """``arguments`` is JSON text."""

    name: str
    arguments: str


class CalledTool(TypedDict):
    id: str
    type: Literal["function"]
    function: CalledFunction


class ChatMessage(TypedDict):
    role: Literal["assistant"]
    content: str | None
    refusal: None
    annotations: list[Any]
    reasoning_content: NotRequired[str]
    reasoning: NotRequired[str]
    function_call: NotRequired[CalledFunction]
    tool_calls: NotRequired[list[CalledTool]]


class ChatChoice(TypedDict):
    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishWord


class ChatCompletion(TypedDict):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChatChoice]
    usage: UsageItem


class FunctionPiece(TypedDict):
    name: NotRequired[str]
    arguments: str


class ToolPiece(TypedDict):
    """The first of a call has its id, type and name; the pieces of ``arguments`` join."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function"]]
    function: FunctionPiece


class ChatDelta(TypedDict, total=False):
    role: Literal["assistant"]
    content: str
    reasoning_content: str
    reasoning: str
    tool_calls: list[ToolPiece]
    function_call: FunctionPiece


class ChunkChoice(TypedDict):
    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishWord | None


class ChatChunk(TypedDict):
    """With ``include_usage`` the last one has the usage and no choices."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChunkChoice]
    usage: NotRequired[UsageItem]


class TextLogprobs(TypedDict):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(TypedDict):
    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishWord | None


class TextCompletion(TypedDict):
    """Whole, or a chunk of a stream, of which the last one has the usage."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[TextChoice]
    usage: NotRequired[UsageItem]


class EmbeddingItem(TypedDict):
    """A vector as numbers, or with ``encoding_format`` base64 as text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(TypedDict):
    prompt_tokens: int
    total_tokens: int


class EmbeddingList(TypedDict):
    object: Literal["list"]
    data: list[EmbeddingItem]
    model: str
    usage: EmbeddingUsage


class ModelItem(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    kind: str
    abilities: list[str]
    context_length: NotRequired[int]
    max_model_len: NotRequired[int]
    aliases: NotRequired[list[str]]
    parent: NotRequired[str]
    quantization: NotRequired[str]
    pooling: NotRequired[str]
    pooling_source: NotRequired[str]
    prompts: NotRequired[list[str]]


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[ModelItem]
