"""Fixtures for all tests: the tiny models. Keeps every test off the network and on one thread.

def test_x(tiny_model):        folder = tiny_model("gemma3")         random weights, HF form
def test_y(scripted_model):    folder = scripted_model               answers word for word
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Before mlx or transformers is imported by anyone.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

# By default an example that takes 200 ms fails, be it that the machine had something else to do:
# what must not take long has a test of its own, and pytest-timeout ends what hangs.
hypothesis.settings.register_profile("any-machine", deadline=None)
hypothesis.settings.load_profile("any-machine")

_homes = itertools.count()

TinyModel = Callable[[str], Path]

SCRIPTED_MODEL = Path(__file__).parent / "data" / "scripted"


def _new_home(monkeypatch: pytest.MonkeyPatch, factory: pytest.TempPathFactory) -> None:
    """It isn't there until something is written into it."""
    monkeypatch.setenv("MAXI_MLX_HOME", str(factory.getbasetemp() / f"home-{next(_homes)}"))


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A home of its own for every test, so that none finds another's prompts in the disk cache."""
    _new_home(monkeypatch, tmp_path_factory)


@pytest.fixture(scope="module", autouse=True)
def own_home_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For the servers that a module's tests share: else they would be in the user's own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        _new_home(monkeypatch, tmp_path_factory)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_home_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """And for those that all share."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        _new_home(monkeypatch, tmp_path_factory)
        yield


@pytest.fixture
def patient_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a stream has its status, however long a busy machine takes to find it."""
    from maxi_mlx.server import stream

    monkeypatch.setattr(stream, "DOOR_WAIT_S", 60.0)


@pytest.fixture
def patient_with_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk has is waited for after a load, though to read the prompt would take less."""
    from maxi_mlx.engine import prefixes

    wait = prefixes.Prefixes._wait

    def long_wait(self: Any, *given: Any, is_short: bool = False) -> bool:
        return wait(self, *given)

    monkeypatch.setattr(prefixes.Prefixes, "_wait", long_wait)
    monkeypatch.setattr(prefixes, "_RESTORE_TIMEOUT_S", 60.0)


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
