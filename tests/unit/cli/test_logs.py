"""Lines for people and for machines, and how loud libraries may be."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from maxi_mlx.cli import logs


@pytest.fixture(autouse=True)
def root_logger_put_back() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("maxi_mlx")
    kept = (list(root.handlers), root.level, ours.level)
    root.handlers.clear()
    yield
    root.handlers[:], root.level = kept[0], kept[1]
    ours.setLevel(kept[2])


def test_json_lines_carry_fields_and_exceptions() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream=stream)
    fields = {"model": "a\n\u20ac", "status": 200, "message": "may not replace the message"}
    logging.getLogger("maxi_mlx.requests").info("%s", "done", extra={"fields": fields})
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        logging.getLogger("maxi_mlx.engine").exception("failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "info",
        "logger": "maxi_mlx.requests",
        "message": "done",
        "model": "a\n\u20ac",
        "status": 200,
    }
    assert second["level"] == "error"
    assert "ZeroDivisionError" in second["exception"]


def test_text_lines() -> None:
    stream = io.StringIO()
    logs.configure("info", "text", stream=stream)
    logging.getLogger("maxi_mlx.requests").info("a=%s", 5)
    time, level, message = stream.getvalue().split()
    assert (len(time), level, message) == (8, "INFO", "a=5")


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["ours debug", "ours info", "ours error", "library error"]),
        ("info", ["ours info", "ours error", "library error"]),
        ("error", ["ours error", "library error"]),
    ],
)
def test_levels_are_for_us_alone(level: logs.LogLevel, heard: list[str]) -> None:
    stream = io.StringIO()
    logs.configure(level, "json", stream=stream)
    for name, whose in (("maxi_mlx.server", "ours"), ("aiohttp.server", "library")):
        for number in (logging.DEBUG, logging.INFO, logging.ERROR):
            text = f"{whose} {logging.getLevelName(number).lower()}"
            logging.getLogger(name).log(number, text)
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == heard
