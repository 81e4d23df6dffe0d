"""Sets up logging: lines for people or JSON for machines, on stderr."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from maxi_mlx.core.settings import LogFormat, LogLevel


class JsonFormatter(logging.Formatter):
    """One JSON object a line; a record's ``fields`` become keys of their own."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in getattr(record, "fields", {}).items():
            line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(level: LogLevel, log_format: LogFormat, *, stream: TextIO | None = None) -> None:
    handler = logging.StreamHandler(stream or sys.stderr)
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        )
    # Libraries are heard from warnings up, whatever is asked of us.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("maxi_mlx").setLevel(level.upper())
