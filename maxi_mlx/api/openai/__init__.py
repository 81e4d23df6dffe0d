"""The OpenAI API: schema (the wire), parse (wire to request), write (events to bytes)."""

from __future__ import annotations

from maxi_mlx.api.openai.answer import Answer
from maxi_mlx.api.openai.audio import AudioCall, parse_audio
from maxi_mlx.api.openai.audio_writer import (
    TranscriptionAnswer,
    TranscriptionStreamWriter,
    content_type_of,
)
from maxi_mlx.api.openai.chat_writer import ChatAnswer, ChatStreamWriter
from maxi_mlx.api.openai.completion_writer import CompletionAnswer, CompletionStreamWriter
from maxi_mlx.api.openai.embeddings import EmbeddingCall, embedding_body, parse_embedding
from maxi_mlx.api.openai.errors import error_body
from maxi_mlx.api.openai.models import model_body, models_body
from maxi_mlx.api.openai.parse import ChatCall, CompletionCall, parse_chat, parse_completion
from maxi_mlx.api.openai.sse import KEEP_ALIVE
from maxi_mlx.api.openai.stream import StreamWriter

__all__ = [
    "KEEP_ALIVE",
    "Answer",
    "AudioCall",
    "ChatAnswer",
    "ChatCall",
    "ChatStreamWriter",
    "CompletionAnswer",
    "CompletionCall",
    "CompletionStreamWriter",
    "EmbeddingCall",
    "StreamWriter",
    "TranscriptionAnswer",
    "TranscriptionStreamWriter",
    "content_type_of",
    "embedding_body",
    "error_body",
    "model_body",
    "models_body",
    "parse_audio",
    "parse_chat",
    "parse_completion",
    "parse_embedding",
]
