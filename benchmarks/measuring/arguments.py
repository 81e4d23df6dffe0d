"""Types of command-line arguments that the benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def counts(text: str) -> list[int]:
    return [count(part.strip()) for part in text.split(",")]


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def model_folder(text: str) -> Path:
    folder = Path(text)
    if not (folder / "config.json").is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a model folder: it has no config.json")
    return folder.resolve()
