"""A server with one tiny model of each kind, so that a request without a name means it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.conftest import Served, serving
from tests.models import build_model, whisper
from tests.vectors import tiny

LANGUAGE = "short"


@contextmanager
def serving_one_of_each(folder: Path) -> Iterator[Served]:
    """The language model's context is short, and so are its answers."""
    build_model(folder / LANGUAGE, "qwen3", max_position_embeddings=256)
    tiny.build(folder / "vectors", "bert")
    whisper.build_whisper(folder / "speech")
    with serving(folder) as served:
        yield served
