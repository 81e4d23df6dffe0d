"""Where models are looked for on this machine."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root, default_roots, home_models_dir
from tests.unit.catalog.folders import write_model


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("MAXI_MLX_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_usual_places(home: Path) -> None:
    assert default_roots([]) == (
        Root(home / ".maxi-mlx" / "models", "maxi-mlx", "folders"),
        Root(home / ".cache" / "huggingface" / "hub", "hub cache", "hub"),
        Root(home / ".lmstudio" / "models", "LM Studio", "folders"),
        Root(home / ".cache" / "lm-studio" / "models", "LM Studio", "folders"),
    )


def test_given_folders_come_first_and_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    given = [Path("~/a"), Path("b"), home / "a", Path("~/.lmstudio/models")]
    roots = default_roots(given)
    assert roots[:3] == (
        Root(home / "a", "~/a", "folders"),
        Root(home / "b", "b", "folders"),
        Root(home / ".lmstudio" / "models", "~/.lmstudio/models", "folders"),
    )
    assert len(roots) == 6


def test_home_of_the_project_can_be_moved(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXI_MLX_HOME", "~/elsewhere")
    assert home_models_dir() == home / "elsewhere" / "models"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/xdg", "HF_HOME": "/hf"}, "/hf/hub"),
        ({"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/legacy"}, "/legacy"),
        ({"HUGGINGFACE_HUB_CACHE": "/legacy", "HF_HUB_CACHE": "/cache"}, "/cache"),
        ({"HF_HUB_CACHE": "~/mine"}, "{home}/mine"),
        ({"HF_HOME": "$HOME/mine"}, "{home}/mine/hub"),
        ({"HF_HUB_CACHE": "", "HF_HOME": ""}, "{home}/.cache/huggingface/hub"),
    ],
)
def test_hub_cache(
    home: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (hub,) = [root for root in default_roots([]) if root.layout == "hub"]
    assert hub.path == Path(expected.format(home=home))


def test_folder_that_lm_studio_was_told_to_use(home: Path) -> None:
    (home / ".lmstudio").mkdir()
    settings = home / ".lmstudio" / "settings.json"
    settings.write_text(json.dumps({"downloadsFolder": str(home / "disk")}))
    folders = [root.path for root in default_roots([]) if root.source == "LM Studio"]
    assert folders == [
        home / "disk",
        home / ".lmstudio" / "models",
        home / ".cache" / "lm-studio" / "models",
    ]


def test_broken_settings_of_lm_studio_are_told(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / ".lmstudio").mkdir()
    (home / ".lmstudio" / "settings.json").write_text("{")
    with caplog.at_level(logging.WARNING):
        assert len(default_roots([])) == 4
    assert "settings.json is not valid JSON" in caplog.text


def test_models_of_all_roots_are_listed(home: Path) -> None:
    write_model(home / "given" / "One")
    write_model(home / ".maxi-mlx" / "models" / "Two")
    write_model(home / ".cache/huggingface/hub/models--org--Three/snapshots/aaa")
    write_model(home / ".lmstudio" / "models" / "org" / "Four")
    entries = Catalog(default_roots([home / "given"])).entries()
    assert [(entry.id, entry.source) for entry in entries] == [
        ("One", str(home / "given")),
        ("Two", "maxi-mlx"),
        ("Three", "hub cache"),
        ("Four", "LM Studio"),
    ]
