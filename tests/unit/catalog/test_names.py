"""Ids are short, unique and stable; clients' ways of writing a name lead to the model."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.catalog.names import NameIndex, Naming, assign_ids, near, printable
from maxi_mlx.core.errors import ModelNotFound
from tests.unit.catalog.folders import write_model


def naming(
    name: str, org: str | None = None, *, label: str = "hub cache", ok: bool = True
) -> Naming:
    path = f"/models/{org}/{name}" if org else f"/models/{name}"
    return Naming(name=name, org=org, label=label, paths=(path,), is_servable=ok)


@pytest.mark.parametrize(
    ("namings", "ids"),
    [
        pytest.param([naming("a"), naming("b", "org")], ["a", "b"], id="short"),
        pytest.param([naming("a", "x"), naming("a", "y")], ["x/a", "y/a"], id="shared name"),
        pytest.param(
            [naming("a", "x"), naming("A", "y")], ["x/a", "y/A"], id="shared but for case"
        ),
        pytest.param([naming("a"), naming("a", "y")], ["a", "y/a"], id="one without organisation"),
        pytest.param(
            [naming("a", "x"), naming("a", "x", label="LM Studio")],
            ["a", "a@lm-studio"],
            id="copies",
        ),
        pytest.param(
            [naming("a", "x"), naming("a", "x"), naming("a", "x")],
            ["a", "a@hub-cache", "a@hub-cache-2"],
            id="copies of one source",
        ),
        pytest.param(
            [naming("a", "x", ok=False), naming("a", "x", label="LM Studio")],
            ["a@hub-cache", "a"],
            id="the copy that works comes first",
        ),
        pytest.param([naming("a", label=""), naming("a", label="")], ["a", "a@2"], id="no label"),
    ],
)
def test_ids(namings: list[Naming], ids: list[str]) -> None:
    assert assign_ids(namings) == ids


NAMINGS = st.lists(
    st.builds(
        Naming,
        name=st.sampled_from(["a", "A", "a@x", "b", "é", "e\u0301"]),
        org=st.sampled_from([None, "o", "O", "p"]),
        label=st.sampled_from(["", "x", "X y"]),
        paths=st.just(()),
        is_servable=st.booleans(),
    ),
    max_size=8,
)


@given(namings=NAMINGS)
def test_every_model_is_found_by_its_id_whatever_the_others_are_called(
    namings: list[Naming],
) -> None:
    ids = assign_ids(namings)
    index = NameIndex(ids, namings)
    for place, id in enumerate(ids):
        assert index.find(id) == place
        assert index.find(f" {id.swapcase()} ") == place
        assert index.find(f"{id}:latest") == place


INDEX_NAMINGS = [
    Naming(
        name="Qwen3-0.6B",
        org="Qwen",
        label="hub cache",
        paths=("/cache/models--Qwen--Qwen3-0.6B/snapshots/abc", "/cache/models--Qwen--Qwen3-0.6B"),
    ),
    Naming(name="Llama", org=None, label="m", paths=("/home/me/models/Llama",), aliases=("mine",)),
    Naming(name="odd:latest", org=None, label="m", paths=("/home/me/models/odd:latest",)),
]
INDEX = NameIndex(assign_ids(INDEX_NAMINGS), INDEX_NAMINGS)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Qwen3-0.6B", 0),
        ("qwen3-0.6b", 0),
        ("Qwen/Qwen3-0.6B", 0),
        ("qwen/qwen3-0.6B/", 0),
        ("Qwen3-0.6B:latest", 0),
        ("Qwen/Qwen3-0.6B:LATEST", 0),
        ("  Qwen3-0.6B\n", 0),
        ("models--Qwen--Qwen3-0.6B", 0),
        ("/cache/models--Qwen--Qwen3-0.6B/", 0),
        ("/cache/models--Qwen--Qwen3-0.6B/snapshots/abc", 0),
        ("Llama", 1),
        ("mine", 1),
        ("models/Llama", 1),
        ("./models/Llama/", 1),
        ("../models/Llama", 1),
        ("me/models//Llama", 1),
        ("/home/me/models/Llama", 1),
        ("/home/me/../me/models/Llama", 1),
        ("~/models/Llama", 1),
        ("./Llama", 1),
        ("odd:latest", 2),
        ("odd", None),
        ("Llama:8b", None),
        ("meta/Llama", None),
        ("lama", None),
        ("/models/Llama", None),
        ("/", None),
        (".", None),
        ("..", None),
        ("", None),
        (":latest", None),
        ("/etc/passwd", None),
        ("a\0b", None),
        ("\ud800", None),
    ],
)
@pytest.mark.clients
def test_point_49_names(monkeypatch: pytest.MonkeyPatch, name: str, place: int | None) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert INDEX.find(name) == place


def test_shared_name_alone_means_the_first_that_can_be_served() -> None:
    namings = [naming("a", "x", ok=False), naming("a", "y"), naming("a", "z")]
    index = NameIndex(assign_ids(namings), namings)
    assert index.find("a") == 1
    assert index.find("x/a") == 0


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("qwen3", ["Qwen3-4B", "Qwen3-0.6B"]),
        ("Qwen/Qwen3-4B-Instruct:latest", ["Qwen3-4B", "Qwen3-0.6B"]),
        ("lama", ["Llama"]),
        ("gpt-5", ["Qwen3-4B", "Qwen3-0.6B", "Llama"]),
        ("x" * 100_000, ["Llama", "Qwen3-0.6B", "Qwen3-4B"]),
    ],
)
def test_nearest(name: str, nearest: list[str]) -> None:
    namings = [
        naming("Qwen3-0.6B", "Qwen"),
        naming("Qwen3-4B", "Qwen"),
        naming("Llama"),
        naming("Qwen3-9B", ok=False),
    ]
    assert NameIndex(assign_ids(namings), namings).nearest(name) == nearest


@pytest.mark.parametrize(
    ("name", "found"),
    [("Qwen3", ["Qwen3-0.6B"]), ("wrong", []), ("", []), ("org/lama", ["Llama"])],
)
def test_only_what_is_near_is_near(name: str, found: list[str]) -> None:
    assert near(name, ["Llama", "Qwen3-0.6B"]) == found


@pytest.mark.clients
def test_point_49_miss_names_the_nearest(models: Path, catalog: Catalog) -> None:
    write_model(models / "Qwen3-0.6B")
    write_model(models / "Llama-1B")
    with pytest.raises(ModelNotFound) as raised:
        catalog.find("qwen3\x1b[31m")
    error = raised.value
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")
    assert error.message == (
        "The model 'qwen3\ufffd[31m' was not found. The nearest here: 'Qwen3-0.6B'. "
        "`maxi-mlx list` and GET /v1/models name all."
    )


@pytest.mark.clients
def test_point_49_miss_without_any_model_says_how_to_get_one(catalog: Catalog) -> None:
    with pytest.raises(ModelNotFound, match="get one with `maxi-mlx pull smollm2`"):
        catalog.find("gpt-5")


def test_broken_model_is_found_with_its_problem(models: Path, catalog: Catalog) -> None:
    write_model(models / "m", tensors=None)
    assert catalog.find("m").problem == "no weights: model*.safetensors is missing"


def test_two_organisations_share_a_name(models: Path, catalog: Catalog) -> None:
    for org in ("alpha", "beta"):
        write_model(models / org / "Tiny")
    write_model(models / "beta" / "Other")
    entries = {entry.id: entry.path for entry in catalog.entries()}
    assert entries == {
        "alpha/Tiny": models / "alpha" / "Tiny",
        "beta/Tiny": models / "beta" / "Tiny",
        "Other": models / "beta" / "Other",
    }
    assert catalog.find("BETA/tiny").id == "beta/Tiny"
    assert catalog.find("tiny").id == "alpha/Tiny"
    assert catalog.find(f"{models}/beta/Tiny/").id == "beta/Tiny"
    assert catalog.find("models/beta/Tiny").id == "beta/Tiny"


def test_path_of_an_existing_folder_that_is_no_entry_is_not_found(
    tmp_path: Path, models: Path, catalog: Catalog
) -> None:
    write_model(models / "known")
    stranger = write_model(tmp_path / "elsewhere" / "stranger")
    with pytest.raises(ModelNotFound):
        catalog.find(str(stranger))


def test_folder_reached_twice_is_listed_once(tmp_path: Path) -> None:
    models = tmp_path / "models"
    write_model(models / "org" / "Tiny")
    (models / "a-link").symlink_to(models / "org" / "Tiny")
    (models / "org-link").symlink_to(models / "org")
    (tmp_path / "models-link").symlink_to(models)
    roots = [
        Root(models, "one", "folders"),
        Root(models / "org", "two", "folders"),
        Root(models / "org" / "Tiny", "three", "folders"),
        Root(tmp_path / "models-link", "four", "folders"),
    ]
    catalog = Catalog(roots)
    (entry,) = catalog.entries()
    assert (entry.id, entry.org_name, entry.source) == ("Tiny", "org/Tiny", "one")
    for name in ("a-link", "models-link/org/Tiny", str(tmp_path / "models-link/a-link")):
        assert catalog.find(name).path == models / "org" / "Tiny"


def test_link_to_a_model_outside_gives_it_the_links_name(tmp_path: Path, models: Path) -> None:
    target = write_model(tmp_path / "elsewhere" / "Tiny-v2-final")
    (models / "Tiny").symlink_to(target)
    catalog = Catalog([Root(models, "given", "folders")])
    assert [entry.id for entry in catalog.entries()] == ["Tiny"]
    assert catalog.find(str(target)).id == "Tiny"


def test_names_that_are_not_utf_8_become_printable(models: Path, catalog: Catalog) -> None:
    write_model(Path(os.fsdecode(os.fsencode(models) + b"/bad\xff\x1b")))
    (entry,) = catalog.entries()
    assert entry.id == "bad\ufffd\ufffd"
    assert entry.problem is None
    assert catalog.find("bad\ufffd\ufffd").path.is_dir()
    json.dumps(entry.id).encode("utf-8")


@given(text=st.text() | st.binary().map(os.fsdecode))
def test_printable_fits_json_and_a_terminal(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= 200
    shown.encode("utf-8")
