"""What a client is told, as values: the server, things to paste or do, and settings for a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

NO_KEY = "none"  # clients want some text as a key, also where the server has none

FileFormat = Literal["json", "toml", "yaml"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a client is pointed at. ``url`` ends without a slash and without ``/v1``."""

    url: str
    api_key: str | None
    model: str
    context_length: int | None
    takes_tools: bool  # the model was taught to call tools
    sees: bool = False  # and reads images

    @property
    def base_url(self) -> str:
        """What clients of OpenAI's API take."""
        return f"{self.url}/v1"

    @property
    def key(self) -> str:
        return self.api_key or NO_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Commands, code or steps. ``language`` names it for a page; ``intro`` is said before it.
    ``is_instead``: another way to do what the settings before it do."""

    intro: str
    language: Literal["sh", "python", "text"]
    text: str
    is_instead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """Settings for a client's own file.

    ``defaults`` are what a file needs besides, where it hasn't got them. ``identity`` is the key
    that tells the items of its lists apart: one that is there already is changed, not added.
    """

    path: Path
    format: FileFormat
    settings: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    identity: str | None = None


Part = Block | SettingsFile


@dataclass(frozen=True, slots=True)
class Client:
    """``guide`` gives what is to be done, in its order."""

    name: str
    title: str
    guide: Callable[[Server], tuple[Part, ...]]
