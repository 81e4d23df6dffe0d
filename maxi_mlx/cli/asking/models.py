"""Which model a command means, asked of the server that has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.core.errors import SetupError

WRITER_TYPES = ("llm", "vlm")  # as LM Studio's list calls them
MAX_NAMES_SHOWN = 10
NO_MODEL = "there is no model that chats yet: `maxi-mlx pull smollm2` fetches a small one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A model that chats."""

    id: str
    is_loaded: bool
    context_length: int | None
    takes_tools: bool
    sees: bool


def writers(connection: Connection) -> list[Writer]:
    listed = connection.get("/api/v0/models")["data"]
    return [_writer(model) for model in listed if model["type"] in WRITER_TYPES]


def named(connection: Connection, name: str) -> Writer:
    """Raises NoAnswer where there is none of that name, SetupError for one that doesn't chat, or
    for no name, as a variable gives that isn't set."""
    if not name.strip():
        raise SetupError("the model's name is empty; leave it out for the one in use")
    found = _listed(connection, name)
    if found["type"] not in WRITER_TYPES:
        raise no_writer(found["id"])
    return _writer(found)


def no_writer(name: str) -> SetupError:
    return SetupError(f"{name} does not chat; name a model that does")


def usual(connection: Connection, setting: str | None = None, *, how: str = "name one") -> Writer:
    """The one of the command's own ``setting``, or of the server's; else the one in use, or the
    only one. Raises SetupError where none of these tells; ``how`` says how one is named."""
    told = connection.get("/health").get("settings", {})
    settings = [told.get(field, {}).get("value") for field in ("model", "fallback_model")]
    found = writers(connection)
    loaded = [model.id for model in found if model.is_loaded]
    for name in (setting, settings[0], *loaded[:1], settings[1]):
        listed = _listed(connection, name) if name is not None else None
        if listed is not None and listed["type"] in WRITER_TYPES:
            return _writer(listed)
    only = the_only([model.id for model in found], how=how)
    return next(model for model in found if model.id == only)


def the_only(names: Sequence[str], *, how: str) -> str:
    """Raises SetupError where there are more, or none."""
    if len(names) == 1:
        return names[0]
    if not names:
        raise SetupError(NO_MODEL)
    shown = ", ".join(names[:MAX_NAMES_SHOWN]) + (" …" if len(names) > MAX_NAMES_SHOWN else "")
    raise SetupError(f"there are several models; {how}: {shown}")


def _listed(connection: Connection, name: str) -> Any:
    return connection.get(f"/api/v0/models/{quote(name, safe='/')}")


def _writer(listed: Mapping[str, Any]) -> Writer:
    return Writer(
        id=listed["id"],
        is_loaded=listed["state"] == "loaded",
        context_length=listed.get("max_context_length"),
        takes_tools="tool_use" in listed["capabilities"],
        sees="vision" in listed["capabilities"],
    )
