"""aiohttp's own log: what is not HTTP is the sender's fault, and worth no traceback.

Nor are its bytes, which may be the rest of a prompt whose length was given too small.
"""

from __future__ import annotations

import logging

from aiohttp.http_exceptions import HttpProcessingError

logger = logging.getLogger("maxi_mlx.http")


def http_logger() -> logging.Logger:
    if not any(isinstance(filter_, _Malformed) for filter_ in logger.filters):
        logger.addFilter(_Malformed())
    return logger


class _Malformed(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        logger.debug("a connection sent something that is not HTTP: %s", type(error).__name__)
        return False
