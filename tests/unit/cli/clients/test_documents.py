"""Settings put into TOML and YAML: other settings and comments stay, and what can't be read or
changed safely is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from maxi_mlx.cli.clients.documents import Unreadable, merged_text, new_text
from maxi_mlx.cli.clients.guide import SettingsFile
from maxi_mlx.cli.clients.merging import Conflict

TOML = SettingsFile(
    path=Path("config.toml"),
    format="toml",
    settings={"model": "m", "providers": {"ours": {"name": "ours", "url": "u"}}},
)
YAML_FILE = SettingsFile(
    path=Path("config.yaml"),
    format="yaml",
    settings={"models": [{"name": "m", "url": "u", "roles": ["chat"]}]},
    defaults={"name": "Local"},
    identity="name",
)
YAML_LIST = SettingsFile(
    path=Path("models.yaml"), format="yaml", settings=[{"id": "m", "url": "u"}], identity="id"
)


def plain(file: SettingsFile, text: str) -> Any:
    return tomllib.loads(text) if file.format == "toml" else YAML(typ="safe").load(text)


@pytest.mark.parametrize(
    ("file", "old", "text", "changed"),
    [
        pytest.param(
            TOML,
            "# mine\n[tools]\nweb = true # yes\n",
            '# mine\nmodel = "m"\n\n[tools]\nweb = true # yes\n\n'
            '[providers.ours]\nname = "ours"\nurl = "u"\n',
            ["model", "providers"],
            id="toml-beside-a-table",
        ),
        pytest.param(
            TOML,
            'model = "old" # mine\n\n[providers.ours]\nname="ours"\nurl="old"\nmore=1\n',
            'model = "m" # mine\n\n[providers.ours]\nname="ours"\nurl="u"\nmore=1\n',
            ["model", "providers.ours.url"],
            id="toml-changed",
        ),
        pytest.param(
            YAML_FILE,
            "name: Mine # always\nmodels:\n- name: a\n  roles: [chat]\n# end\n",
            "name: Mine # always\nmodels:\n- name: a\n  roles: [chat]\n"
            "- name: m\n  url: u\n  roles:\n  - chat\n# end\n",
            ["models[m]"],
            id="yaml-another-item",
        ),
        pytest.param(
            YAML_FILE,
            "name: Mine\nmodels:\n  - name: m\n    url: 'old'\n    roles: [chat] # r\n",
            "name: Mine\nmodels:\n  - name: m\n    url: 'u'\n    roles: [chat] # r\n",
            ["models[m].url"],
            id="yaml-the-same-item",
        ),
        pytest.param(
            YAML_FILE,
            "# mine\n",
            "# mine\nname: Local\nmodels:\n  - name: m\n    url: u\n    roles:\n      - chat\n",
            ["name", "models"],
            id="yaml-comments-alone",
        ),
        pytest.param(
            YAML_LIST,
            "- id: x\n",
            "- id: x\n- id: m\n  url: u\n",
            ["[m]"],
            id="yaml-list",
        ),
    ],
)
def test_merged(file: SettingsFile, old: str, text: str, changed: list[str]) -> None:
    assert merged_text(file, old) == (text, changed)
    assert merged_text(file, text) == (text, [])


@pytest.mark.parametrize("file", [TOML, YAML_FILE, YAML_LIST], ids=lambda file: file.path.name)
@pytest.mark.parametrize("old", ["", "\n", " \r\n"])
def test_an_empty_file_is_a_new_one(file: SettingsFile, old: str) -> None:
    text, changed = merged_text(file, old)
    assert text == new_text(file)
    assert changed
    assert merged_text(file, text) == (text, [])


@pytest.mark.parametrize(
    ("file", "old", "words"),
    [
        (TOML, "a = [", "Invalid value"),
        (YAML_FILE, "a: [b", "line 1"),
        (YAML_FILE, "a: !tag b", "!tag"),
        (YAML_FILE, "\x00", "x0000"),
        (YAML_FILE, "a: 2020-13-45", "month"),
    ],
)
def test_unreadable(file: SettingsFile, old: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        merged_text(file, old)


@pytest.mark.parametrize(
    ("file", "old", "words"),
    [
        (TOML, "providers = 5", "providers in it is no table"),
        # tomlkit would put `model` into a table here.
        (TOML, 'providers.x.name = "a"\n', "it is written in a way that they can't be added to"),
        (YAML_FILE, "- a\n", "it is no table"),
        (YAML_FILE, "models: {}\n", "models in it is no list"),
        (YAML_LIST, "a: b\n", "it is no list"),
    ],
)
def test_conflicts(file: SettingsFile, old: str, words: str) -> None:
    with pytest.raises(Conflict, match=f"^{words}$"):
        merged_text(file, old)


_names = st.sampled_from(["model", "models", "name", "providers", "ours", "x-1", "y z"])
_scalars = st.booleans() | st.integers(-9, 9) | st.text(alphabet="ab#:'\" é", max_size=5)
_tables = st.dictionaries(
    _names,
    st.recursive(
        _scalars,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_names, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(_tables, _tables, st.sampled_from(["toml", "yaml"]))
def test_whatever_is_there_is_there_afterwards(
    old: dict[str, Any], new: dict[str, Any], form: Any
) -> None:
    path = Path("x")
    text = new_text(SettingsFile(path=path, format=form, settings=old)) if old else ""
    file = SettingsFile(path=path, format=form, settings=new)
    try:
        merged, changed = merged_text(file, text)
    except Conflict:
        return
    found = plain(file, merged) or {}
    assert found == _joined(old, new)
    assert (merged == text) == (not changed)


def _joined(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    joined = dict(old)
    for key, value in new.items():
        is_table = isinstance(value, dict) and isinstance(old.get(key), dict)
        joined[key] = _joined(old[key], value) if is_table else value
    return joined
