"""Second names of models, in their file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.catalog.copies import Copies
from maxi_mlx.core.errors import ModelNotFound, SetupError
from tests.unit.catalog.folders import write_model


def test_names_outlive_their_owner_and_others_changes_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "home" / "copies.json"
    first, second = Copies(file), Copies(file)
    assert first.target("mine") is None
    first.add("Mine", "org/Tiny")
    second.add("yours", "org/Tiny")
    second.add("mine", "Other")  # the same name: it now stands for another
    assert json.loads(file.read_text()) == {"Mine": "Other", "yours": "org/Tiny"}
    assert first.target("MINE") == "Other"
    assert (first.remove("mine"), first.remove("mine")) == (True, False)
    second.remove_all_of("org/Tiny")
    assert (first.target("yours"), second.all()) == (None, {})
    assert [path.name for path in file.parent.iterdir()] == ["copies.json"]


def test_a_broken_file_is_no_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "copies.json"
    file.write_text("[1")
    copies = Copies(file)
    assert copies.all() == copies.all() == {}
    assert caplog.text.count("no second names are known") == 1
    with pytest.raises(SetupError, match=r"copies\.json, which .*: mend or remove it"):
        copies.add("mine", "Tiny")
    assert file.read_text() == "[1"
    file.unlink()
    copies.add("mine", "Tiny")


def test_a_second_name_is_found_as_the_model_is(tmp_path: Path) -> None:
    write_model(tmp_path / "org" / "Tiny")
    catalog = Catalog([Root(tmp_path, "tests", "folders")])
    catalog.copies.add("mine", "org/Tiny")
    for name in ("mine", "MINE:latest", "hf.co/org/Tiny", "https://huggingface.co/org/tiny"):
        assert catalog.find(name).id == "Tiny"
    assert catalog.names(catalog.find("mine")) == ("Tiny", "org/Tiny", "mine")
    catalog.copies.add("lost", "gone")
    with pytest.raises(ModelNotFound):
        catalog.find("lost")
