"""What ``/openapi.json`` says of LM Studio's endpoints; those it has from OpenAI are OpenAI's."""

from __future__ import annotations

from dataclasses import replace

from maxi_mlx.api.lm_studio.answer_schema import (
    LoadedInstance,
    NewerModels,
    OlderModel,
    OlderModels,
    UnloadedInstance,
)
from maxi_mlx.api.lm_studio.loading import LoadBody, UnloadBody
from maxi_mlx.api.openai import operations as openai
from maxi_mlx.api.openai.answer_schema import ErrorBody
from maxi_mlx.api.openapi.operation import Operation, whole

OLDER_MODELS = Operation(
    tag="LM Studio",
    summary="The models that can be used, in the older form.",
    answers=(whole(OlderModels),),
    errors=(ErrorBody,),
)

OLDER_MODEL = Operation(
    tag="LM Studio",
    summary="One model, in the older form.",
    answers=(whole(OlderModel),),
    errors=(ErrorBody,),
)

NEWER_MODELS = Operation(
    tag="LM Studio",
    summary="The models that can be used.",
    answers=(whole(NewerModels),),
    errors=(ErrorBody,),
)

LOAD = Operation(
    tag="LM Studio",
    summary="Loads a model.",
    bodies=(LoadBody,),
    answers=(whole(LoadedInstance),),
    errors=(ErrorBody,),
)

UNLOAD = Operation(
    tag="LM Studio",
    summary="Unloads a model as soon as nobody uses it.",
    bodies=(UnloadBody,),
    answers=(whole(UnloadedInstance),),
    errors=(ErrorBody,),
)

CHAT = replace(openai.CHAT, tag="LM Studio")
COMPLETION = replace(openai.COMPLETION, tag="LM Studio")
EMBEDDINGS = replace(openai.EMBEDDINGS, tag="LM Studio")
