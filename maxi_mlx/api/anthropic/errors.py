"""Anthropic's error envelope."""

from __future__ import annotations

from maxi_mlx.api.anthropic.answer_schema import ErrorBody, ErrorItem
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.errors import ContextTooLong, MaxiError, Unavailable

# Told it, the SDK's tool runner goes on by sending all messages every time.
THREADS_UNSUPPORTED = "thread_unsupported_request"

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def error_body(error: MaxiError, *, request_id: str | None) -> bytes:
    """The body of an error answer; the same object is an event when a stream breaks."""
    written: ErrorItem = {"type": _type(error), "message": _message(error)}
    if error.code == THREADS_UNSUPPORTED:
        written["details"] = {"error_code": error.code, "unsupported": ["thread"]}
    answer: ErrorBody = {"type": "error", "error": written, "request_id": request_id}
    return to_json(answer)


def _type(error: MaxiError) -> str:
    if isinstance(error, Unavailable):
        return "overloaded_error"
    if error.status in _TYPES:
        return _TYPES[error.status]
    return "invalid_request_error" if error.status < 500 else "api_error"


def _message(error: MaxiError) -> str:
    # Claude Code shortens the conversation when it reads these words and numbers.
    if isinstance(error, ContextTooLong) and error.context_tokens is not None:
        numbers = f"{error.prompt_tokens} tokens > {error.context_tokens} maximum"
        return f"prompt is too long: {numbers}. {error.message}"
    return error.message
