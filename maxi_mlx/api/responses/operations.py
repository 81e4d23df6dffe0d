"""What ``/openapi.json`` says of the Responses API."""

from __future__ import annotations

from maxi_mlx.api.openai.answer_schema import ErrorBody
from maxi_mlx.api.openapi.operation import Operation, Query, events, whole
from maxi_mlx.api.responses.answer_schema import (
    DeletedResponse,
    ItemPage,
    ResponseObject,
    StreamEvent,
    TokenCount,
)
from maxi_mlx.api.responses.fields import RESPONSE_FIELDS
from maxi_mlx.api.responses.schema import ResponseBody

_ERRORS = (ErrorBody,)
_STREAM = events(StreamEvent, ErrorBody)

CREATE = Operation(
    tag="Responses",
    summary="A response, whole, as a stream, or in the background.",
    bodies=(ResponseBody,),
    fields=RESPONSE_FIELDS,
    example={"input": "Hello!", "max_output_tokens": 16},
    answers=(whole(ResponseObject), _STREAM),
    errors=_ERRORS,
)

COUNT = Operation(
    tag="Responses",
    summary="How many tokens the input has.",
    bodies=(ResponseBody,),
    fields=RESPONSE_FIELDS,
    example={"input": "Hello!"},
    answers=(whole(TokenCount),),
    errors=_ERRORS,
)

COMPACT = Operation(
    tag="Responses",
    summary="Refused: nothing is compacted here.",
    bodies=(ResponseBody,),
    fields=RESPONSE_FIELDS,
    answers=(),
    errors=_ERRORS,
)

GET = Operation(
    tag="Responses",
    summary="A response as it is now, or the events that make it.",
    answers=(whole(ResponseObject), _STREAM),
    errors=_ERRORS,
    query=(
        Query(name="stream", note="true: its events, from the first", type="boolean"),
        Query(
            name="starting_after",
            note="With stream: the events behind the one of this number",
            type="integer",
        ),
    ),
)

DELETE = Operation(
    tag="Responses",
    summary="Forgets a response.",
    answers=(whole(DeletedResponse),),
    errors=_ERRORS,
)

CANCEL = Operation(
    tag="Responses",
    summary="Ends a response that is being made.",
    answers=(whole(ResponseObject),),
    errors=_ERRORS,
)

INPUT_ITEMS = Operation(
    tag="Responses",
    summary="What a response was made of.",
    answers=(whole(ItemPage),),
    errors=_ERRORS,
    query=(
        Query(name="limit", note="1 to 100, default 20"),
        Query(name="order", note="asc or desc (the default)"),
        Query(name="after", note="What comes behind the item of this id"),
    ),
)
