"""Names of tools: as clients know them, and as the model is told of them.

A tool in a namespace has one name in the prompt, and a custom tool, which takes free text, is a
function of one text there; the writers turn both back.
"""

from __future__ import annotations

from dataclasses import dataclass

CUSTOM_INPUT = "input"  # the one argument of a custom tool


@dataclass(frozen=True, slots=True, kw_only=True)
class WireName:
    """What a client calls a tool."""

    name: str
    namespace: str | None = None
    is_custom: bool = False


def prompt_name(name: str, namespace: str | None) -> str:
    return f"{namespace}__{name}" if namespace else name
