"""The OpenAI Responses API: schema (the wire), parse (wire to request), events to responses."""

from __future__ import annotations

from maxi_mlx.api.responses.items import RawItem
from maxi_mlx.api.responses.kept import (
    deleted_body,
    input_items_body,
    input_tokens_body,
    object_body,
)
from maxi_mlx.api.responses.parse import (
    AskedResponse,
    ResponseCall,
    parse_response,
    read_response,
)
from maxi_mlx.api.responses.response import Response
from maxi_mlx.api.responses.truncation import num_droppable, without_turns
from maxi_mlx.api.responses.writers import ResponseStream, replay_frames

__all__ = [
    "AskedResponse",
    "RawItem",
    "Response",
    "ResponseCall",
    "ResponseStream",
    "deleted_body",
    "input_items_body",
    "input_tokens_body",
    "num_droppable",
    "object_body",
    "parse_response",
    "read_response",
    "replay_frames",
    "without_turns",
]
