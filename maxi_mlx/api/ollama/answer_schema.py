"""Ollama's answers as they go over the wire: the types of what the writers make.

The document at ``/openapi.json`` is made from them. The last line of a stream, and a whole answer,
have the figures; a line is an `ErrorBody` where a stream breaks.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from maxi_mlx.api.openai.answer_schema import ScoredToken

DoneReason = Literal["stop", "length", "load", "unload"]


class ErrorBody(TypedDict):
    error: str


class CalledFunction(TypedDict):
    index: int
    name: str
    arguments: dict[str, Any]


class CalledTool(TypedDict):
    id: str
    function: CalledFunction


class Ending(TypedDict):
    """Durations in nanoseconds."""

    done: Literal[True]
    done_reason: DoneReason
    total_duration: int
    load_duration: int
    prompt_eval_count: int
    prompt_eval_duration: int
    eval_count: int
    eval_duration: int


class WrittenLine(TypedDict):
    """What the two endpoints that write text share."""

    model: str
    created_at: str
    done: bool
    done_reason: NotRequired[DoneReason]
    total_duration: NotRequired[int]
    load_duration: NotRequired[int]
    prompt_eval_count: NotRequired[int]
    prompt_eval_duration: NotRequired[int]
    eval_count: NotRequired[int]
    eval_duration: NotRequired[int]
    logprobs: NotRequired[list[ScoredToken]]


class ChatMessage(TypedDict):
    role: Literal["assistant"]
    content: str
    thinking: NotRequired[str]
    tool_calls: NotRequired[list[CalledTool]]


class ChatLine(WrittenLine):
    message: ChatMessage


class GenerateLine(WrittenLine):
    response: str
    thinking: NotRequired[str]
    context: NotRequired[list[int]]


class Embeddings(TypedDict):
    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OlderEmbedding(TypedDict):
    embedding: list[float]


class ModelDetails(TypedDict):
    parent_model: str
    format: Literal["mlx"]
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class TaggedModel(TypedDict):
    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: ModelDetails


class Tags(TypedDict):
    models: list[TaggedModel]


class LoadedModel(TypedDict):
    name: str
    model: str
    size: int
    digest: str
    details: ModelDetails
    expires_at: str
    size_vram: int
    context_length: int


class Loaded(TypedDict):
    models: list[LoadedModel]


class ModelInformation(TypedDict):
    license: str
    modelfile: str
    parameters: str
    template: str
    details: ModelDetails
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class Version(TypedDict):
    version: str


class StatusLine(TypedDict):
    status: str
    digest: NotRequired[str]
    total: NotRequired[int]
    completed: NotRequired[int]
