"""The OpenAI API: schema (the wire), parse (wire to request), write (events to bytes)."""

from __future__ import annotations

from maxi_mlx.api.openai.answer import Answer
from maxi_mlx.api.openai.chat_writer import ChatAnswer, ChatStreamWriter
from maxi_mlx.api.openai.completion_writer import CompletionAnswer, CompletionStreamWriter
from maxi_mlx.api.openai.errors import error_body
from maxi_mlx.api.openai.models import model_body, models_body
from maxi_mlx.api.openai.parse import ChatCall, CompletionCall, parse_chat, parse_completion
from maxi_mlx.api.openai.sse import KEEP_ALIVE
from maxi_mlx.api.openai.stream import StreamWriter

__all__ = [
    "KEEP_ALIVE",
    "Answer",
    "ChatAnswer",
    "ChatCall",
    "ChatStreamWriter",
    "CompletionAnswer",
    "CompletionCall",
    "CompletionStreamWriter",
    "StreamWriter",
    "error_body",
    "model_body",
    "models_body",
    "parse_chat",
    "parse_completion",
]
