"""Fixtures for all tests: the tiny models. Keeps every test off the network and on one thread.

def test_x(tiny_model):        folder = tiny_model("gemma3")         random weights, HF form
def test_y(scripted_model):    folder = scripted_model               answers word for word
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

# Before mlx or transformers is imported by anyone.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

_homes = itertools.count()

TinyModel = Callable[[str], Path]

SCRIPTED_MODEL = Path(__file__).parent / "data" / "scripted"


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A home of its own for every test, so that none finds another's prompts in the disk cache.
    It isn't there until something is written into it."""
    home = tmp_path_factory.getbasetemp() / f"home-{next(_homes)}"
    monkeypatch.setenv("MAXI_MLX_HOME", str(home))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """``tiny_model(family)`` gives a folder named ``tiny-FAMILY``, the same all session: don't
    write into it. The families are in tests/models/families.py; `build_model` makes others."""
    from tests.models import build_model

    root = tmp_path_factory.mktemp("models")

    def folder_of(family: str) -> Path:
        folder = root / f"tiny-{family}"
        if not folder.exists():
            # Whole or not at all: a test may fail half way through.
            build_model(root / "building" / folder.name, family).rename(folder)
        return folder

    return folder_of


@pytest.fixture(scope="session")
def scripted_model() -> Path:
    """The model trained on the dialogues of tests/models/scripted.py; part of the repository."""
    return SCRIPTED_MODEL
