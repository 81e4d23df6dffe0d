"""Settings as the text of a file: made, read and merged, in JSON, TOML and YAML. Comments stay.

A machine: text in, text out.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Mapping, MutableMapping, MutableSequence
from typing import Any

from maxi_mlx.cli.clients import json_text
from maxi_mlx.cli.clients.guide import FileFormat, SettingsFile
from maxi_mlx.cli.clients.merging import Conflict, merge, merge_list

FORMAT_NAMES: Mapping[FileFormat, str] = {"json": "JSON", "toml": "TOML", "yaml": "YAML"}
BLANK = "\ufeff \t\r\n"
LONG_LINE = 4096  # YAML's writer breaks lines at 80 otherwise, also those that nobody changed


class Unreadable(Exception):
    """The text is not of its format; the message says what is wrong."""


def new_text(file: SettingsFile) -> str:
    """What the file would be if there were none."""
    settings = file.settings
    if isinstance(settings, Mapping):
        settings = {**file.defaults, **settings}
    match file.format:
        case "json":
            return json.dumps(settings, indent=json_text.INDENT, ensure_ascii=False) + "\n"
        case "toml":
            import tomlkit

            assert isinstance(settings, Mapping)
            return tomlkit.dumps(settings)
        case "yaml":
            return _yaml_text(settings, old="")


def merged_text(file: SettingsFile, old: str) -> tuple[str, list[str]]:
    """The file's text with the settings in it, and the names of those that weren't so before.

    Raises Unreadable, and Conflict where the settings can't be put into it.
    """
    data = _read(old, file)
    changed = _merge(data, file)
    if not changed:
        return old, []
    text = new_text(file) if not old.strip(BLANK) else _edited(old, file)
    # There are ways to write a file that its editor gets wrong: a dotted name in TOML is one.
    if _read(text, file) != data:
        raise Conflict("it is written in a way that they can't be added to")
    return text, changed


def _read(text: str, file: SettingsFile) -> Any:
    """As plain data. Raises Unreadable."""
    try:
        match file.format:
            case "json":
                data = json_text.read(text).value if text.strip(BLANK) else None
            case "toml":
                data = tomllib.loads(text)
            case "yaml":
                data = _read_yaml(text)
    except (json_text.BrokenJson, tomllib.TOMLDecodeError) as error:
        raise Unreadable(str(error)) from None
    if data is None:
        return {} if isinstance(file.settings, Mapping) else []
    return data


def _read_yaml(text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError) as error:
        raise Unreadable(" ".join(str(error).split())) from None


def _merge(data: Any, file: SettingsFile) -> list[str]:
    if isinstance(file.settings, Mapping):
        if not isinstance(data, MutableMapping):
            raise Conflict("it is no table")
        missing = {key: value for key, value in file.defaults.items() if key not in data}
        changed = merge(data, missing, identity=None)
        return [*changed, *merge(data, file.settings, identity=file.identity)]
    if not isinstance(data, MutableSequence):
        raise Conflict("it is no list")
    assert file.identity is not None
    return merge_list(data, file.settings, identity=file.identity)


def _edited(old: str, file: SettingsFile) -> str:
    match file.format:
        case "json":
            assert isinstance(file.settings, Mapping)
            there = json_text.read(old).value
            missing = {key: value for key, value in file.defaults.items() if key not in there}
            return json_text.edited(old, {**missing, **file.settings}, identity=file.identity)
        case "toml":
            import tomlkit

            document = tomlkit.parse(old)
            _merge(document, file)
            return tomlkit.dumps(document)
        case "yaml":
            from ruamel.yaml import YAML

            reader = YAML()
            reader.preserve_quotes = True
            data = reader.load(old)
            if data is None:  # nothing but comments
                return old.rstrip("\n") + "\n" + new_text(file)
            _merge(data, file)
            return _yaml_text(data, old=old)


def _yaml_text(data: Any, *, old: str) -> str:
    from ruamel.yaml import YAML

    writer = YAML()
    writer.preserve_quotes = True
    writer.width = LONG_LINE
    is_list = isinstance(data, list)
    # A list's dashes, where there are any, stay where they were.
    if is_list or re.search(r"^\w.*:[ \t]*\n- ", old, re.MULTILINE):
        writer.indent(mapping=2, sequence=2, offset=0)
    else:
        writer.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    writer.dump(data, stream)
    return stream.getvalue()
