"""What ``/openapi.json`` says of Anthropic's endpoints."""

from __future__ import annotations

from maxi_mlx.api.anthropic.answer_schema import ErrorBody, MessageBody, StreamEvent, TokenCount
from maxi_mlx.api.anthropic.fields import COUNT_FIELDS, MESSAGES_FIELDS
from maxi_mlx.api.anthropic.schema import CountBody, MessagesBody
from maxi_mlx.api.openapi.operation import Operation, events, whole

_ASKED = {"messages": [{"role": "user", "content": "Hello!"}]}

MESSAGE = Operation(
    tag="Anthropic",
    summary="The next message of a conversation, whole or as a stream.",
    bodies=(MessagesBody,),
    fields=MESSAGES_FIELDS,
    example={**_ASKED, "max_tokens": 16},
    answers=(whole(MessageBody), events(StreamEvent)),
    errors=(ErrorBody,),
)

COUNT = Operation(
    tag="Anthropic",
    summary="How many tokens a conversation has.",
    bodies=(CountBody,),
    fields=COUNT_FIELDS,
    example=_ASKED,
    answers=(whole(TokenCount),),
    errors=(ErrorBody,),
)
