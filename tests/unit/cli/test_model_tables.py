"""The configuration file's tables of single models: what they may say, and what is wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.roots import Root
from maxi_mlx.cli import configuration, model_tables
from maxi_mlx.cli.model_checks import check_model_settings
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.model_settings import ModelSettings
from maxi_mlx.core.settings import Settings
from maxi_mlx.text.tool_calls import BY_NAME
from tests.unit.catalog.folders import write_json, write_model


def load(folder: Path, text: str) -> Settings:
    file = folder / "config.toml"
    file.write_text(text)
    return configuration.load({}, config=file, default_config=file, environ={})


KEYS: list[tuple[str, dict[str, Any]]] = [
    ('alias = "gpt-4o"', {"aliases": ("gpt-4o",)}),
    ('alias = ["gpt-4o", " a:b "]', {"aliases": ("gpt-4o", "a:b")}),
    ("pin = true", {"is_pinned": True}),
    ('keep_alive = "5m"', {"keep_alive_s": 300.0}),
    ("keep_alive = -1", {"keep_alive_s": math.inf}),
    ("context = 4096", {"context_tokens": 4096}),
    ("temperature = 0", {"sampling": (("temperature", 0.0),)}),
    ("top_p = 0.9\ntop_k = 0", {"sampling": (("top_p", 0.9), ("top_k", 0))}),
    ("presence_penalty = -2", {"sampling": (("presence_penalty", -2.0),)}),
    ("max_tokens = 100", {"max_tokens": 100}),
    ('system = "Be brief."', {"system": "Be brief."}),
    ('tool_parser = "qwen3_coder"', {"tool_parser": "qwen3_coder"}),
    ('chat_template = "/a/b.jinja"', {"chat_template": Path("/a/b.jinja")}),
    ('adapter = "/a/b"', {"adapter": Path("/a/b")}),
]


@pytest.mark.parametrize(("text", "said"), KEYS, ids=[key[0] for key in KEYS])
def test_keys(tmp_path: Path, text: str, said: dict[str, Any]) -> None:
    settings = load(tmp_path, f'[models."org/Name"]\n{text}\n')
    assert settings.models == {"org/Name": ModelSettings(**said)}
    assert settings.sources["models"] == f"file {tmp_path / 'config.toml'}"


def test_paths_start_at_the_file(tmp_path: Path) -> None:
    own = load(tmp_path, '[models.m]\nchat_template = "t.jinja"\nadapter = "loras/a"\n').models["m"]
    assert own.chat_template == tmp_path / "t.jinja"
    assert own.adapter == tmp_path / "loras" / "a"


def test_the_model_that_an_adapter_goes_over(tmp_path: Path) -> None:
    settings = load(tmp_path, '[adapters.poet]\nmodel = "one"\n')
    assert settings.adapter_models == {"poet": "one"}
    assert settings.sources["adapter_models"] == f"file {tmp_path / 'config.toml'}"


WRONG = [
    ("models = 5", 'models is no table of tables; write [models."NAME"]'),
    ("[models]\nm = 5", 'models is no table of tables; write [models."NAME"]'),
    ("[models.m]\ntemprature = 1", "temprature: unknown key; did you mean 'temperature'?"),
    ("[models.m]\nzzzz = 1", "zzzz: unknown key; known are adapter, alias, chat_template,"),
    ("[models.m]\ntemperature = 2.5", "temperature: 2.5 is not a number from 0 to 2"),
    ('[models.m]\ntemperature = "hot"', 'temperature: "hot" is not a number from 0 to 2'),
    ("[models.m]\ntop_p = 0", "top_p: 0 is not a number above 0 and at most 1"),
    ("[models.m]\ncontext = 0", "context: 0 is not a whole number of 1 or more"),
    ('[models.m]\npin = "yes"', 'pin: "yes" is not true or false'),
    ("[models.m]\nalias = []\npin = 1", "pin: 1 is not true or false"),
    ('[models.m]\nalias = [" "]', 'alias: " " is not a name or a list of names'),
    ('[models.m]\ntool_parser = "x"', 'tool_parser: "x" is not one of minimax_m2, gemma4,'),
    ('[models."a.b"]\nkeep_alive = "x"', 'models."a.b".keep_alive: "x" is not a time such as'),
    ("[adapters]\npoet = 5", 'adapters is no table of tables; write [adapters."NAME"]'),
    ("[adapters.poet]\nbase = 'm'", 'adapters."poet".base: unknown key; known is model'),
    ("[adapters.poet]", 'adapters."poet".model: null is not a model\'s name'),
    ("[models.m]\ntrust = true", "trust: there is nothing to trust: code in a model's folder is"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[wrong[0] for wrong in WRONG])
def test_wrong_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SetupError) as caught:
        load(tmp_path, text + "\n")
    assert caught.value.message.startswith(f"file {tmp_path / 'config.toml'}")
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_the_document_has_every_key_and_parser() -> None:
    text = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    for name in (*model_tables.KEYS, *model_tables.SAMPLING, "tool_parser", *BY_NAME):
        assert f"`{name}`" in text


def check(folder: Path, text: str) -> None:
    settings = load(folder, text)
    catalog = Catalog([Root(folder / "models", "tests", "folders")], settings.models)
    check_model_settings(catalog, settings)


MISFITS = [
    ("[models.one]\nalias = 'two'", "one\".alias: 'two' for one is the name of two itself"),
    (
        "[models.one]\nalias = 'x'\n[models.two]\nalias = ['y', 'X']",
        "two\".alias: 'X' for two is an alias of one already",
    ),
    ("[models.one]\nalias = 'Default'", "'Default' means the model in use"),
    ("[models.one]\n[models.ONE]", "ONE\": is one, which has settings under 'one' already"),
    ("[models.one]\ncontext = 2049", "context: 2049 is more than the 2048 tokens that one has"),
    ("[models.one]\nchat_template = 'none.jinja'", "none.jinja: no such file or directory"),
    ("[models.one]\nchat_template = 'bad.jinja'", "bad.jinja has a syntax error in line 1"),
    ("[models.one]\nadapter = 'none'", "none is no folder"),
    ("[models.one]\nadapter = 'models'", "can't be used: adapter_config.json can't be read"),
    ("[models.one]\nadapter = 'peft'", "can't be used: it is in PEFT's form"),
]


@pytest.mark.parametrize(("text", "message"), MISFITS, ids=[misfit[0] for misfit in MISFITS])
def test_what_does_not_suit_the_models(tmp_path: Path, text: str, message: str) -> None:
    write_model(tmp_path / "models" / "one")
    write_model(tmp_path / "models" / "two")
    write_json(tmp_path / "peft" / "adapter_config.json", {"peft_type": "LORA"})
    (tmp_path / "bad.jinja").write_text("{% if %}")
    with pytest.raises(SetupError) as caught:
        check(tmp_path, text + "\n")
    assert caught.value.message.startswith(f"file {tmp_path / 'config.toml'}, models.")
    assert message in caught.value.message


def test_a_name_without_a_model_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_model(tmp_path / "models" / "one")
    check(tmp_path, "[models.onne]\ntemperature = 1\n")
    [record] = caplog.records
    assert "there is no model of that name now; did you mean 'one'?" in record.getMessage()
