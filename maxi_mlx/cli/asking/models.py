"""Which model a command means, asked of the server that has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.core.errors import SetupError

WRITER_TYPES = ("llm", "vlm")  # as LM Studio's list calls them
MAX_NAMES_SHOWN = 10
NO_MODEL = "there is no model that chats yet: `maxi-mlx pull smollm2` fetches a small one"


@dataclass(frozen=True, slots=True)
class Writer:
    """A model that chats."""

    id: str
    is_loaded: bool


def writers(connection: Connection) -> list[Writer]:
    listed = connection.get("/api/v0/models")["data"]
    return [_writer(model) for model in listed if model["type"] in WRITER_TYPES]


def named(connection: Connection, name: str) -> Writer:
    """Raises NoAnswer where there is none of that name, SetupError for one that doesn't chat."""
    found = connection.get(f"/api/v0/models/{quote(name, safe='/')}")
    if found["type"] not in WRITER_TYPES:
        raise SetupError(f"{found['id']} does not chat; `maxi-mlx list` shows which do")
    return _writer(found)


def usual(connection: Connection, setting: str | None) -> Writer:
    """The one of the command's own ``setting``, or of the server's; else the one in use, or the
    only one. Raises SetupError where none of these tells."""
    told = connection.get("/health").get("settings", {})
    settings = [told.get(field, {}).get("value") for field in ("model", "fallback_model")]
    found = writers(connection)
    loaded = [model.id for model in found if model.is_loaded]
    for name in (setting, settings[0], *loaded[:1], settings[1]):
        if name is not None:
            return named(connection, name)
    if len(found) == 1:
        return found[0]
    raise SetupError(_undecided([model.id for model in found]))


def _writer(listed: Any) -> Writer:
    return Writer(listed["id"], listed["state"] == "loaded")


def _undecided(names: Sequence[str]) -> str:
    if not names:
        return NO_MODEL
    shown = ", ".join(names[:MAX_NAMES_SHOWN]) + (" …" if len(names) > MAX_NAMES_SHOWN else "")
    return f"there are several models, and none is in use; name one of {shown}"
