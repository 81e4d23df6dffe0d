"""Every spelling of a time to stay, and what is none."""

from __future__ import annotations

import math

import pytest

from maxi_mlx.core.keep_alive import FOREVER, parse_keep_alive


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (300, 300.0),
        (0.5, 0.5),
        (-1, FOREVER),
        (-0.1, FOREVER),
        (1e30, FOREVER),
        (math.inf, FOREVER),
        ("0", 0.0),
        ("0s", 0.0),
        ("10s", 10.0),
        ("5m", 300.0),
        (" 1H ", 3600.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        (".5m", 30.0),
        ("250ms", 0.25),
        ("1us", 1e-6),
        ("300", 300.0),
        ("-1", FOREVER),
        ("-5m", FOREVER),
        ("+5m", 300.0),
        ("9999999h", FOREVER),
    ],
)
def test_times(value: object, seconds: float) -> None:
    assert parse_keep_alive(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "m",
        "5 m",
        "5x",
        "5m3",
        "1h-5m",
        "--1",
        "forever",
        "nan",
        math.nan,
        True,
        None,
        [5],
        "5d",
    ],
)
def test_what_is_no_time(value: object) -> None:
    with pytest.raises(ValueError):
        parse_keep_alive(value)
