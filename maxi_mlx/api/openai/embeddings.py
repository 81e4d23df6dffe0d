"""``/embeddings``: a body to an `EmbeddingRequest`, and vectors to a body."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from maxi_mlx.api.openai.answer_schema import EmbeddingList
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.parse import MAX_MODEL_NAME_CHARS
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.embedding import MAX_INPUTS, EmbeddingRequest, EmbeddingResult, InputType
from maxi_mlx.core.errors import InvalidRequest

EncodingFormat = Literal["float", "base64"]
Input = str | list[str | int | list[int]]

_MAX_DIMENSIONS = 1 << 20

# By the words of those who have such a field.
_INPUT_TYPES: Mapping[str, InputType] = {
    "query": "query",
    "search_query": "query",
    "document": "document",
    "passage": "document",
    "search_document": "document",
}


class EmbeddingBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    input: Input | None = None
    encoding_format: str | None = None
    dimensions: int | None = None
    prompt_name: str | None = None
    input_type: str | None = None
    truncate: bool | str | None = None


_BODY = msgspec.json.Decoder(EmbeddingBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCall:
    """What to embed, and the form in which the vectors go back."""

    request: EmbeddingRequest
    encoding_format: EncodingFormat


def parse_embedding(body: bytes, *, request_id: str) -> EmbeddingCall:
    """The call in a body for ``/embeddings``; raises `InvalidRequest`."""
    fields = decode(body, _BODY)
    if fields.prompt_name is not None and fields.input_type is not None:
        raise InvalidRequest(
            "'prompt_name' and 'input_type' both choose a prompt; send one of them.",
            param="input_type",
        )
    request = EmbeddingRequest(
        id=request_id,
        model=checked_model(fields.model),
        inputs=_inputs(fields.input),
        dimensions=checked_dimensions(fields.dimensions),
        prompt_name=fields.prompt_name,
        input_type=_input_type(fields.input_type),
        truncate=checked_truncate(fields.truncate),
    )
    return EmbeddingCall(request=request, encoding_format=_encoding_format(fields.encoding_format))


def embedding_body(result: EmbeddingResult, encoding_format: EncodingFormat) -> bytes:
    """OpenAI's list of embeddings; base64 is of little-endian float32."""
    rows: list[list[float] | str]
    if encoding_format == "float":
        rows = result.rows.tolist()
    else:
        rows = [base64.b64encode(row.tobytes()).decode() for row in result.rows.astype("<f4")]
    answer: EmbeddingList = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": row}
            for index, row in enumerate(rows)
        ],
        "model": result.model,
        "usage": {
            "prompt_tokens": result.prompt_tokens,
            "total_tokens": result.prompt_tokens,
        },
    }
    return to_json(answer)


def _inputs(wire: Input | None) -> tuple[str | tuple[int, ...], ...]:
    if wire is None:
        raise InvalidRequest("'input' is missing: send a text, or a list of texts.", param="input")
    if isinstance(wire, str):
        return (_checked(wire, "input"),)
    if not wire:
        raise InvalidRequest("'input' is an empty list.", param="input")
    token_ids = [item for item in wire if isinstance(item, int)]
    if len(token_ids) == len(wire):
        return (_checked(token_ids, "input"),)
    items = [item for item in wire if not isinstance(item, int)]
    if token_ids or len({type(item) for item in items}) > 1:
        raise InvalidRequest(
            "'input' mixes strings, token ids and lists; send one kind.", param="input"
        )
    check_count(len(items), "input")
    return tuple(_checked(item, f"input[{index}]") for index, item in enumerate(items))


def _checked(item: str | list[int], path: str) -> str | tuple[int, ...]:
    if not item:
        raise InvalidRequest(f"'{path}' is empty; there is nothing to embed.", param=path)
    if isinstance(item, str):
        return item
    if min(item) < 0:
        raise InvalidRequest(
            f"'{path}' has the token id {min(item)}; token ids start at 0.", param=path
        )
    return tuple(item)


def check_count(count: int, name: str) -> None:
    if count > MAX_INPUTS:
        raise InvalidRequest(
            f"'{name}' has {count} items; one request may have {MAX_INPUTS}.", param=name
        )


def checked_model(name: str | None) -> str:
    if name is not None and len(name) > MAX_MODEL_NAME_CHARS:
        raise InvalidRequest(
            f"'model' has {len(name)} characters; a name has at most {MAX_MODEL_NAME_CHARS}.",
            param="model",
        )
    return name or ""


def checked_truncate(value: bool | str | None) -> bool:
    """A boolean, or Cohere's words."""
    if isinstance(value, str):
        known = {"none": False, "end": True}
        if value.lower() not in known:
            raise InvalidRequest(
                f"'truncate' is {value[:40]!r}; it may be true, false, 'NONE' or 'END'.",
                param="truncate",
            )
        return known[value.lower()]
    return bool(value)


def checked_dimensions(value: int | None) -> int | None:
    if value is not None and not 1 <= value <= _MAX_DIMENSIONS:
        raise InvalidRequest(f"'dimensions' is {value}; it counts from 1.", param="dimensions")
    return value


def _encoding_format(value: str | None) -> EncodingFormat:
    match value:
        case None | "float":
            return "float"
        case "base64":
            return "base64"
    raise InvalidRequest(
        f"'encoding_format' is {value[:40]!r}; it may be 'float' or 'base64'.",
        param="encoding_format",
    )


def _input_type(value: str | None) -> InputType | None:
    if value is None:
        return None
    if value not in _INPUT_TYPES:
        raise InvalidRequest(
            f"'input_type' is {value[:40]!r}; it may be {', '.join(map(repr, _INPUT_TYPES))}. "
            "For another of the model's prompts send 'prompt_name'.",
            param="input_type",
        )
    return _INPUT_TYPES[value]
