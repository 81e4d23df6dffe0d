"""The field ``keep_alive``: how long a model stays in memory after a request."""

from __future__ import annotations

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.keep_alive import parse_keep_alive


def checked_keep_alive(value: float | str | None) -> float | None:
    """Seconds; None where the request doesn't say, which an empty text doesn't either."""
    if value is None or value == "":
        return None
    try:
        return parse_keep_alive(value)
    except ValueError:
        raise InvalidRequest(
            f"'keep_alive' is {str(value)[:40]!r}, which is no time: send a number of seconds, a "
            "duration such as '5m' or '1h30m', 0 to unload the model, or -1 to keep it for ever.",
            param="keep_alive",
        ) from None
