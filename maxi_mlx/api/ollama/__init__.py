"""Ollama's API: schema (the wire), parse (wire to request), stream and answer (events to bytes)."""

from __future__ import annotations

from maxi_mlx.api.ollama.answer import ChatAnswer, GenerateAnswer, WholeAnswer
from maxi_mlx.api.ollama.embeddings import (
    EmbedCall,
    embed_body,
    parse_embed,
    parse_embeddings,
)
from maxi_mlx.api.ollama.errors import error_body
from maxi_mlx.api.ollama.models import (
    RunningModel,
    ShownModel,
    ps_body,
    show_body,
    tags_body,
)
from maxi_mlx.api.ollama.names import CopyCall, NamedCall, parse_copy, parse_named, status_line
from maxi_mlx.api.ollama.parse import WritingCall, parse_chat, parse_generate
from maxi_mlx.api.ollama.stream import ChatLineWriter, GenerateLineWriter, LineWriter

__all__ = [
    "ChatAnswer",
    "ChatLineWriter",
    "CopyCall",
    "EmbedCall",
    "GenerateAnswer",
    "GenerateLineWriter",
    "LineWriter",
    "NamedCall",
    "RunningModel",
    "ShownModel",
    "WholeAnswer",
    "WritingCall",
    "embed_body",
    "error_body",
    "parse_chat",
    "parse_copy",
    "parse_embed",
    "parse_embeddings",
    "parse_generate",
    "parse_named",
    "ps_body",
    "show_body",
    "status_line",
    "tags_body",
]
