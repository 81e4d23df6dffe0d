"""Fixtures of the wire's tests."""

from __future__ import annotations

import pytest

from maxi_mlx.api.openai import parse


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is parsed, where the engine doesn't do all of it yet."""
    monkeypatch.setattr(parse, "refuse_not_yet", lambda *_: None, raising=False)
