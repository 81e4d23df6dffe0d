"""``maxi-mlx show``: what a model's files say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from maxi_mlx.cli.show import count_text, show
from maxi_mlx.core.errors import ModelNotFound
from tests.unit.catalog.folders import write_model


def shown(*arguments: str, folder: Path) -> str:
    words = [*arguments, "--model-dir", str(folder)]
    return CliRunner().invoke(show, words, catch_exceptions=False).stdout


def test_for_people_and_programs(scripted_model: Path) -> None:
    folder = scripted_model.parent
    model: dict[str, Any] = json.loads(shown("scripted", "--json", folder=folder))
    assert (model["kind"], model["architecture"]) == ("language", "Qwen3ForCausalLM")
    assert model["num_parameters"] * 4 == model["weight_bytes"]
    assert {"chat", "tools", "thinking"} <= set(model["abilities"])
    assert model["path"] == str(scripted_model)
    text = shown("scripted", folder=folder)
    assert text.startswith("scripted\n  kind           language\n")
    assert f"  path           {scripted_model}\n" in text
    assert "\x1b" not in text
    assert shown("scripted", "--template", folder=folder) == model["template"]


def test_what_can_not_be_served_says_so(tmp_path: Path) -> None:
    write_model(tmp_path / "broken", tensors=None)
    text = shown("broken", folder=tmp_path)
    assert "can't be served: no weights" in text
    assert "abilities" not in text
    with pytest.raises(ModelNotFound, match="The nearest here: 'broken'"):
        shown("brokn", folder=tmp_path)


def test_counts() -> None:
    for number, text in {
        354_864: "354,864", 134_515_008: "135M", 4_022_468_096: "4.0B", 235_093_634_560: "235B",
    }.items():  # fmt: skip
        assert count_text(number) == text
