"""LM Studio's lists as they go over the wire: the types of what the writers make.

The document at ``/openapi.json`` is made from them.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

LoadState = Literal["loaded", "loading", "not-loaded"]


class OlderModel(TypedDict):
    id: str
    object: Literal["model"]
    type: Literal["llm", "vlm", "embeddings"]
    publisher: str
    arch: str
    compatibility_type: Literal["mlx"]
    quantization: str
    state: LoadState
    capabilities: list[str]
    max_context_length: NotRequired[int]
    loaded_context_length: NotRequired[int]


class OlderModels(TypedDict):
    object: Literal["list"]
    data: list[OlderModel]


class Quantization(TypedDict):
    name: str
    bits_per_weight: int | None


class InstanceConfig(TypedDict):
    context_length: int


class Instance(TypedDict):
    id: str
    config: InstanceConfig


class Capabilities(TypedDict):
    vision: bool
    trained_for_tool_use: bool


class NewerModel(TypedDict):
    type: Literal["llm", "embedding"]
    publisher: str
    key: str
    display_name: str
    architecture: str | None
    quantization: Quantization
    size_bytes: int
    params_string: str | None
    loaded_instances: list[Instance]
    max_context_length: int
    format: Literal["mlx"]
    description: str | None
    capabilities: NotRequired[Capabilities]


class NewerModels(TypedDict):
    models: list[NewerModel]


class LoadedInstance(TypedDict):
    type: Literal["llm", "embedding"]
    instance_id: str
    load_time_seconds: float
    status: Literal["loaded"]


class UnloadedInstance(TypedDict):
    instance_id: str
