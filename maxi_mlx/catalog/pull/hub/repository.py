"""Names of models on the hub, in the spellings that people and Ollama's clients have for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAIN = "main"

_HOSTS = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/", re.IGNORECASE)
_PART = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
_SEGMENT = r"[\w-][\w.-]*"  # of a revision's name, which is that of a file here
_NAME = re.compile(rf"({_PART})/({_PART})(?:@({_SEGMENT}(?:/{_SEGMENT})*))?", re.ASCII)
_LATEST = ":latest"


@dataclass(frozen=True, slots=True)
class Repository:
    """``name`` is ``org/name``; ``revision`` a branch, a tag or a commit."""

    name: str
    revision: str = MAIN

    def __str__(self) -> str:
        return self.name if self.revision == MAIN else f"{self.name}@{self.revision}"

    @property
    def short_name(self) -> str:
        return self.name.partition("/")[2]

    @property
    def folder_name(self) -> str:
        """As the hub cache calls it."""
        return "models--" + self.name.replace("/", "--")


def parse_repository(text: str) -> Repository | None:
    """``org/name``, ``org/name@revision``, with the hub's address before it or not; None for what
    is no such name."""
    name = _HOSTS.sub("", text.strip(), count=1).rstrip("/")
    if name.casefold().endswith(_LATEST):
        name = name[: -len(_LATEST)]
    found = _NAME.fullmatch(name)
    # Two dots lead out of a folder, and two hyphens part the names in the cache's folders.
    if found is None or ".." in name or "--" in found[1] or "--" in found[2]:
        return None
    return Repository(f"{found[1]}/{found[2]}", found[3] or MAIN)
