"""OpenAI's error envelope."""

from __future__ import annotations

from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.errors import MaxiError


def error_body(error: MaxiError) -> bytes:
    """The body of an error answer; the same object is an event when a stream breaks."""
    return to_json(
        {
            "error": {
                "message": error.message,
                "type": error.kind,
                "param": error.param,
                "code": error.code,
            }
        }
    )
