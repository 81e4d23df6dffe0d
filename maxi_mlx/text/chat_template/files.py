"""Which templates and special tokens a model's files hold. One function reads them; the others
parse what it read.

    tokenizer_config.json    chat_template: a text, or a list of named ones; the special tokens
    chat_template.jinja      wins over it
    chat_template.json       counts where there is nothing else (processors wrote it once)
    additional_chat_templates/*.jinja    named ones

The owner's own file takes the place of all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxi_mlx.core.errors import InvalidRequest

DEFAULT = "default"
TOOL_USE = "tool_use"  # preferred where tools are given
MAX_FILE_BYTES = 16 << 20

_CONFIG = "tokenizer_config.json"
_OLD_TOKENS = "special_tokens_map.json"
_TEMPLATE = "chat_template.jinja"
_OLD_TEMPLATE = "chat_template.json"
_FOLDER = "additional_chat_templates"
_OWNERS = "/"  # no file of the folder has this name


def read_template_files(folder: Path, owners: Path | None = None) -> dict[str, str]:
    """The texts of the files that may hold templates or special tokens, by their names; with the
    file that the owner has for them.

    Raises `InvalidRequest` for one that isn't text, or is absurdly large.
    """
    paths = [folder / name for name in (_CONFIG, _OLD_TOKENS, _TEMPLATE, _OLD_TEMPLATE)]
    paths += sorted((folder / _FOLDER).glob("*.jinja"))
    files = {path.relative_to(folder).as_posix(): _read(path) for path in paths if path.is_file()}
    return files if owners is None else {**files, _OWNERS: _read(owners)}


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InvalidRequest(f"{path.name} is larger than {MAX_FILE_BYTES >> 20} MiB.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path.name} is not UTF-8 text.") from None


def chat_templates(files: Mapping[str, str]) -> dict[str, str]:
    """The templates' texts by their names, "default" among them unless all are special ones."""
    if _OWNERS in files:
        return {DEFAULT: files[_OWNERS]}
    found: dict[str, str] = {}
    for name in (_OLD_TEMPLATE, _CONFIG):
        if named := _named(_json(files, name).get("chat_template")):
            found = named
    for path, text in files.items():
        if path.startswith(f"{_FOLDER}/"):
            found[Path(path).stem] = text
    if _TEMPLATE in files:
        found[DEFAULT] = files[_TEMPLATE]
    return found


def special_tokens(files: Mapping[str, str]) -> dict[str, str]:
    """``bos_token`` and its like, as templates know them: the names that end in "_token"."""
    found: dict[str, str] = {}
    for name in (_OLD_TOKENS, _CONFIG):
        for key, value in _json(files, name).items():
            content = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(content, str):
                found[key] = content
    return found


def _named(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {DEFAULT: value}
    if isinstance(value, list):
        value = {
            item["name"]: item["template"]
            for item in value
            if isinstance(item, dict) and "name" in item and "template" in item
        }
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _json(files: Mapping[str, str], name: str) -> dict[str, Any]:
    if name not in files:
        return {}
    try:
        value = json.loads(files[name])
    except (ValueError, RecursionError):
        raise InvalidRequest(f"{name} is not valid JSON.") from None
    return value if isinstance(value, dict) else {}
