"""Adapters are found, go over the model that they or their owner name, and are models of their
own by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.removal import planned_removal, remove
from maxi_mlx.catalog.roots import Root
from maxi_mlx.core.errors import InvalidRequest, ModelNotFound
from maxi_mlx.core.model_settings import ModelSettings
from tests.unit.catalog.folders import write_json, write_model, write_safetensors

CONFIG: Mapping[str, Any] = {
    "fine_tune_type": "lora",
    "num_layers": 2,
    "lora_parameters": {"rank": 8, "scale": 20.0, "dropout": 0.0},
}


def write_adapter(folder: Path, **config: Any) -> Path:
    write_json(folder / "adapter_config.json", {**CONFIG, **config})
    write_safetensors(folder / "adapters.safetensors", {"a": 8})
    return folder


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    return tmp_path / "adapters"


def catalog_of(models: Path, adapters: Path, **more: Any) -> Catalog:
    return Catalog([Root(models, "tests", "folders")], adapter_dirs=(adapters,), **more)


@pytest.mark.parametrize(
    "base", ["Qwen3-4B-4bit", "acme/Qwen3-4B-4bit", "models/acme/Qwen3-4B-4bit"]
)
def test_an_adapter_is_a_model_of_its_own(models: Path, adapters: Path, base: str) -> None:
    write_model(models / "acme" / "Qwen3-4B-4bit")
    write_adapter(adapters / "poet", model=base)
    catalog = catalog_of(models, adapters)
    plain, poet = catalog.entries()
    assert (poet.id, poet.base, poet.weight_bytes) == ("Qwen3-4B-4bit:poet", plain, 8)
    assert poet.all_weight_bytes == plain.weight_bytes + 8
    assert poet.folders == (plain.path, adapters / "poet")
    for name in ("qwen3-4b-4bit:POET", "acme/Qwen3-4B-4bit:poet:latest"):
        assert catalog.find(name) == poet
    # The names of Ollama's library mean the model itself.
    assert catalog.find("qwen3:4b") == plain
    with pytest.raises(ModelNotFound, match="'Qwen3-4B-4bit:poet'"):
        catalog.find("Qwen3-4B-4bit:poem")


def test_a_folder_without_organisation_may_be_the_organisations_model(
    models: Path, adapters: Path
) -> None:
    write_model(models / "one")
    write_model(models / "acme" / "two")
    write_adapter(adapters / "first", model="hub/one")
    write_adapter(adapters / "second", model="hub/two")
    catalog = catalog_of(models, adapters)
    assert catalog.find("one:first").base == catalog.find("one")
    assert [sentence.partition(": ")[2] for sentence in catalog.stray_adapters()] == [
        "it is for 'hub/two', which is not here"
    ]


STRAYS = [
    ({"model": "none"}, "it is for 'none', which is not here"),
    ({}, "adapter_config.json names none"),
    ({"model": 5}, "adapter_config.json names none"),
]


@pytest.mark.parametrize(("config", "words"), STRAYS, ids=str)
def test_strays(models: Path, adapters: Path, config: dict[str, Any], words: str) -> None:
    write_model(models / "one")
    write_adapter(adapters / "poet", **config)
    catalog = catalog_of(models, adapters)
    assert [entry.id for entry in catalog.entries()] == ["one"]
    [sentence] = catalog.stray_adapters()
    assert words in sentence
    given = catalog_of(models, adapters, adapter_models={"poet": "one"})
    assert given.find("one:poet").problem is None


PROBLEMS = [
    ({"peft_type": "LORA"}, "PEFT's form"),
    ({"fine_tune_type": "magic"}, "fine_tune_type 'magic'"),
    ({"lora_parameters": None}, "says nothing of lora_parameters"),
    ({"lora_parameters": {"rank": 8, "alpha": 1}}, "no number for lora_parameters.scale"),
    ({"lora_parameters": {"rank": 8.0}}, "no whole number for lora_parameters.rank"),
]


@pytest.mark.parametrize(("config", "words"), PROBLEMS, ids=str)
def test_adapters_that_cannot_be_served(
    models: Path, adapters: Path, config: dict[str, Any], words: str
) -> None:
    write_model(models / "one")
    write_adapter(adapters / "poet", **{"model": "one", **config})
    problem = catalog_of(models, adapters).find("one:poet").problem
    assert problem is not None
    assert words in problem


def test_files_that_are_missing_or_change(models: Path, adapters: Path) -> None:
    write_model(models / "one")
    folder = write_adapter(adapters / "poet", model="one")
    catalog = catalog_of(models, adapters)
    before = catalog.find("one:poet")
    write_safetensors(folder / "adapters.safetensors", {"a": 16})
    assert catalog.find("one:poet").weight_bytes == before.weight_bytes + 8
    (folder / "adapters.safetensors").unlink()
    problem = catalog.find("one:poet").problem
    assert problem is not None
    assert problem.startswith("adapters.safetensors can't be read")
    (folder / "adapter_config.json").unlink()
    with pytest.raises(ModelNotFound):
        catalog.find("one:poet")
    assert catalog.find("one").problem is None


def test_a_folder_may_be_one_adapter_and_latest_is_no_name(models: Path, tmp_path: Path) -> None:
    write_model(models / "one")
    poet = write_adapter(tmp_path / "poet", model="one")
    assert catalog_of(models, poet).find("one:poet").problem is None
    write_adapter(tmp_path / "all" / "latest", model="one")
    catalog = catalog_of(models, tmp_path / "all")
    assert catalog.find("one:latest").base is None
    assert "rename the folder" in catalog.stray_adapters()[0]


def test_a_model_with_an_adapter_has_its_bases_settings_and_its_own(
    models: Path, adapters: Path
) -> None:
    write_model(models / "one")
    own = write_adapter(adapters / "poet", model="one")
    base = ModelSettings(
        aliases=("a",),
        is_pinned=True,
        context_tokens=100,
        system="S",
        sampling=(("top_k", 5), ("top_p", 0.5)),
    )
    poet = ModelSettings(aliases=("gpt-4o",), sampling=(("top_k", 9),))
    catalog = catalog_of(models, adapters, settings={"one": base, "one:poet": poet})
    entry = catalog.find("gpt-4o")
    assert (entry.id, entry.context_length, entry.base) == ("one:poet", 100, catalog.find("a"))
    assert entry.settings == ModelSettings(
        aliases=("gpt-4o",), context_tokens=100, system="S", sampling=(("top_k", 9), ("top_p", 0.5))
    )
    always = catalog_of(models, adapters, settings={"one": ModelSettings(adapter=own)})
    assert always.find("one").adapter is not None
    assert always.find("one").problem is None
    assert "only one can be applied" in (always.find("one:poet").problem or "")


def test_removing_a_base_and_what_is_over_it(models: Path, adapters: Path) -> None:
    folder = write_model(models / "one")
    poet = write_adapter(adapters / "poet", model="one")
    catalog = catalog_of(models, adapters)
    with pytest.raises(InvalidRequest, match="with an adapter over it, whose folder is") as caught:
        planned_removal("one:poet", catalog)
    assert str(poet) in caught.value.message
    remove(planned_removal("one", catalog), catalog)
    assert not folder.exists()
    assert poet.is_dir()
    assert catalog.entries() == ()
