"""The configuration file's tables of single models, ``[models."NAME"]``: their keys and values.

Knows no model: whether there is one of that name, and whether all of it suits it, comes later.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from maxi_mlx.catalog.names import MAX_NAME_LENGTH
from maxi_mlx.cli import kinds
from maxi_mlx.cli.kinds import Kind
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.model_settings import ModelSettings

# Reads a value of a kind; SetupError names the place.
Read = Callable[[Kind, object, str], Any]

_NEAR_ENOUGH = 0.7


def _name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= MAX_NAME_LENGTH:
        raise ValueError
    return value.strip()


def _from(low: float, high: float) -> Kind:
    return kinds.number(f"from {low:g} to {high:g}", lambda value: low <= value <= high)


# The ranges of a request's own values.
SAMPLING: Mapping[str, Kind] = {
    "temperature": _from(0, 2),
    "top_p": kinds.number("above 0 and at most 1", lambda value: 0 < value <= 1),
    "top_k": kinds.whole(0, 2**31 - 1),
    "min_p": _from(0, 1),
    "repetition_penalty": _from(0.01, 10),
    "presence_penalty": _from(-2, 2),
    "frequency_penalty": _from(-2, 2),
}
# key: (the field of `ModelSettings`, the values it takes)
KEYS: Mapping[str, tuple[str, Kind]] = {
    "alias": ("aliases", Kind("a name or a list of names", _name)),
    "pin": ("is_pinned", kinds.switch()),
    "keep_alive": ("keep_alive_s", kinds.keep_alive()),
    "context": ("context_tokens", kinds.whole(1)),
    "max_tokens": ("max_tokens", kinds.whole(1)),
    "chat_template": ("chat_template", kinds.path("a file")),
    "system": ("system", kinds.words("a text")),
    "adapter": ("adapter", kinds.path("a folder")),
}
_TRUST = (
    "there is nothing to trust: code in a model's folder is never run, and a model that needs its "
    "own code can't be served; take the line out"
)


def read_tables(raw: object, *, file: Path, read: Read) -> dict[str, ModelSettings]:
    if not isinstance(raw, dict) or not all(isinstance(table, dict) for table in raw.values()):
        raise SetupError(f'file {file}: models is no table of tables; write [models."NAME"]')
    return {name: _settings(name, table, file=file, read=read) for name, table in raw.items()}


def read_adapter_tables(raw: object, *, file: Path, read: Read) -> dict[str, str]:
    """Which model each adapter goes over, where the owner says it: ``[adapters."NAME"]``."""
    if not isinstance(raw, dict) or not all(isinstance(table, dict) for table in raw.values()):
        raise SetupError(f'file {file}: adapters is no table of tables; write [adapters."NAME"]')
    models = {}
    for name, table in raw.items():
        place = f'file {file}, adapters."{name}"'
        for key in table:
            if key != "model":
                raise SetupError(f"{place}.{key}: unknown key; known is model")
        models[name] = read(kinds.words("a model's name"), table.get("model"), f"{place}.model")
    return models


# The field of `Settings`: (the name of the table in the file, who reads it)
READERS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "models": ("models", read_tables),
    "adapter_models": ("adapters", read_adapter_tables),
}


def place_of(source: str, name: str, key: str = "") -> str:
    """How a setting is named in a message. ``source`` is the file, in words."""
    return f'{source}, models."{name}"' + (f".{key}" if key else "")


def _settings(name: str, table: Mapping[str, object], *, file: Path, read: Read) -> ModelSettings:
    values: dict[str, Any] = {}
    sampling = []
    for key, raw in table.items():
        place = place_of(f"file {file}", name, key)
        if key in SAMPLING:
            sampling.append((key, read(SAMPLING[key], raw, place)))
        elif key == "tool_parser":
            values[key] = read(_tool_parser(), raw, place)
        elif key == "trust":
            raise SetupError(f"{place}: {_TRUST}")
        elif key in KEYS:
            field, kind = KEYS[key]
            values[field] = _value(field, kind, raw, place=place, file=file, read=read)
        else:
            raise SetupError(f"{place}: unknown key{_meant(key)}")
    return ModelSettings(sampling=tuple(sampling), **values)


def _value(field: str, kind: Kind, raw: object, *, place: str, file: Path, read: Read) -> Any:
    if field == "aliases":
        items = raw if isinstance(raw, list) else [raw]
        return tuple(read(kind, item, place) for item in items)
    value = read(kind, raw, place)
    return file.parent / value if isinstance(value, Path) else value


def _tool_parser() -> Kind:
    # Only now: the parsers take a moment to import.
    from maxi_mlx.text.tool_calls import BY_NAME

    return kinds.one_of(tuple(BY_NAME))


def _meant(key: str) -> str:
    known = [*KEYS, *SAMPLING, "tool_parser"]
    close = difflib.get_close_matches(key.lower().replace("-", "_"), known, 1, _NEAR_ENOUGH)
    return f"; did you mean '{close[0]}'?" if close else "; known are " + ", ".join(sorted(known))
