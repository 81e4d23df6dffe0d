"""What ``/openapi.json`` says of OpenAI's endpoints."""

from __future__ import annotations

from maxi_mlx.api.anthropic import answer_schema as anthropic
from maxi_mlx.api.openai.answer_schema import (
    ChatChunk,
    ChatCompletion,
    EmbeddingList,
    ErrorBody,
    ModelItem,
    ModelList,
    TextCompletion,
)
from maxi_mlx.api.openai.audio_answer_schema import (
    TranscriptEvent,
    Transcription,
    VerboseTranscription,
)
from maxi_mlx.api.openai.audio_fields import TRANSCRIPTION_FIELDS, TRANSLATION_FIELDS
from maxi_mlx.api.openai.embeddings import EmbeddingBody
from maxi_mlx.api.openai.fields import (
    CHAT_FIELDS,
    COMPLETION_FIELDS,
    EMBEDDING_FIELDS,
    RESPONSES_FIELDS,
)
from maxi_mlx.api.openai.schema import ChatBody, CompletionBody, ResponsesBody
from maxi_mlx.api.openapi.operation import Content, Operation, Query, events, whole

_ERRORS = (ErrorBody,)
_QUESTION = [{"role": "user", "content": "Hello!"}]

CHAT = Operation(
    tag="OpenAI",
    summary="The next message of a conversation, whole or as a stream.",
    bodies=(ChatBody, ResponsesBody),
    fields={**RESPONSES_FIELDS, **CHAT_FIELDS},
    example={"messages": _QUESTION, "max_tokens": 16},
    answers=(whole(ChatCompletion), events(ChatChunk, ErrorBody)),
    errors=_ERRORS,
)

COMPLETION = Operation(
    tag="OpenAI",
    summary="How a text goes on, whole or as a stream.",
    bodies=(CompletionBody,),
    fields=COMPLETION_FIELDS,
    example={"prompt": "Once upon a time", "max_tokens": 16},
    answers=(whole(TextCompletion), events(TextCompletion, ErrorBody)),
    errors=_ERRORS,
)

EMBEDDINGS = Operation(
    tag="OpenAI",
    summary="A vector for each text.",
    bodies=(EmbeddingBody,),
    fields=EMBEDDING_FIELDS,
    example={"input": ["The ships that passed", "A blue book"]},
    answers=(whole(EmbeddingList),),
    errors=_ERRORS,
)

_SPOKEN = (
    whole(Transcription, VerboseTranscription),
    Content(media_type="text/plain"),
    Content(media_type="text/vtt"),
    events(TranscriptEvent, ErrorBody),
)

TRANSCRIPTION = Operation(
    tag="OpenAI",
    summary="What is said in a recording.",
    fields=TRANSCRIPTION_FIELDS,
    is_form=True,
    answers=_SPOKEN,
    errors=_ERRORS,
)

TRANSLATION = Operation(
    tag="OpenAI",
    summary="What is said in a recording, in English.",
    fields=TRANSLATION_FIELDS,
    is_form=True,
    answers=_SPOKEN,
    errors=_ERRORS,
)

# Whoever sends the header gets lists and errors in Anthropic's form.
_VERSION = Query(name="Anthropic-Version", note="With any value: the answer is in Anthropic's form")
_EITHER_ERRORS = (ErrorBody, anthropic.ErrorBody)

MODELS = Operation(
    tag="OpenAI",
    summary="The models that can be used.",
    answers=(whole(ModelList, anthropic.ModelPage),),
    errors=_EITHER_ERRORS,
    headers=(_VERSION,),
    query=(
        Query(name="limit", note="Of Anthropic's form: 1 to 1000, default 20"),
        Query(name="after_id", note="Of Anthropic's form: what comes behind this model"),
        Query(name="before_id", note="Of Anthropic's form: what comes before this model"),
    ),
)

MODEL = Operation(
    tag="OpenAI",
    summary="One model.",
    answers=(whole(ModelItem, anthropic.ModelItem),),
    errors=_EITHER_ERRORS,
    headers=(_VERSION,),
)
