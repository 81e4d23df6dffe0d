"""What ``/openapi.json`` says of Ollama's endpoints."""

from __future__ import annotations

from maxi_mlx.api.ollama.answer_schema import (
    ChatLine,
    Embeddings,
    ErrorBody,
    GenerateLine,
    Loaded,
    ModelInformation,
    OlderEmbedding,
    StatusLine,
    Tags,
    Version,
)
from maxi_mlx.api.ollama.fields import (
    CHAT_FIELDS,
    EMBED_FIELDS,
    EMBEDDINGS_FIELDS,
    GENERATE_FIELDS,
    OPTION_FIELDS,
)
from maxi_mlx.api.ollama.schema import (
    ChatBody,
    CopyBody,
    EmbedBody,
    EmbeddingsBody,
    GenerateBody,
    NamedBody,
    OptionsItem,
)
from maxi_mlx.api.openapi.operation import Content, Operation, lines, whole

_ERRORS = (ErrorBody,)
_OPTIONS = {"num_predict": 16}
_PARTS = ((OptionsItem, OPTION_FIELDS),)


def _list(summary: str, answer: type) -> Operation:
    return Operation(tag="Ollama", summary=summary, answers=(whole(answer),), errors=_ERRORS)


CHAT = Operation(
    tag="Ollama",
    summary="The next message of a conversation, as lines unless `stream` is false.",
    bodies=(ChatBody,),
    fields=CHAT_FIELDS,
    parts=_PARTS,
    example={"messages": [{"role": "user", "content": "Hello!"}], "options": _OPTIONS},
    answers=(lines(ChatLine, ErrorBody), whole(ChatLine)),
    errors=_ERRORS,
)

GENERATE = Operation(
    tag="Ollama",
    summary="The answer to a prompt, as lines unless `stream` is false.",
    bodies=(GenerateBody,),
    fields=GENERATE_FIELDS,
    parts=_PARTS,
    example={"prompt": "Hello!", "options": _OPTIONS},
    answers=(lines(GenerateLine, ErrorBody), whole(GenerateLine)),
    errors=_ERRORS,
)

EMBED = Operation(
    tag="Ollama",
    summary="A vector for each text.",
    bodies=(EmbedBody,),
    fields=EMBED_FIELDS,
    example={"input": ["The ships that passed", "A blue book"]},
    answers=(whole(Embeddings),),
    errors=_ERRORS,
)

OLDER_EMBED = Operation(
    tag="Ollama",
    summary="A text's vector, in the older form.",
    bodies=(EmbeddingsBody,),
    fields=EMBEDDINGS_FIELDS,
    example={"prompt": "The ships that passed"},
    answers=(whole(OlderEmbedding),),
    errors=_ERRORS,
)

TAGS = _list("The models that can be used.", Tags)
LOADED = _list("The models in memory.", Loaded)
VERSION = _list("The version of Ollama whose API this is.", Version)

SHOW = Operation(
    tag="Ollama",
    summary="What is known of a model.",
    bodies=(NamedBody,),
    answers=(whole(ModelInformation),),
    errors=_ERRORS,
)

PULL = Operation(
    tag="Ollama",
    summary="Says that a model is there, or fetches it, as lines unless `stream` is false.",
    bodies=(NamedBody,),
    answers=(lines(StatusLine, ErrorBody), whole(StatusLine)),
    errors=_ERRORS,
)

_DONE = Content(media_type="text/plain")  # and nothing in it

DELETE = Operation(
    tag="Ollama",
    summary="Removes a model from the disk, or a second name.",
    bodies=(NamedBody,),
    example={"model": "second"},
    answers=(_DONE,),
    errors=_ERRORS,
)

COPY = Operation(
    tag="Ollama",
    summary="Gives a model a second name.",
    bodies=(CopyBody,),
    example={"source": "Qwen3-4B-4bit", "destination": "second"},
    answers=(_DONE,),
    errors=_ERRORS,
)

# Models are never made here: these are refused.
CHANGE = Operation(
    tag="Ollama",
    summary="Refused: models are made and published elsewhere.",
    bodies=(NamedBody,),
    answers=(),
    errors=_ERRORS,
)
