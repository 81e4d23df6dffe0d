"""What the owner says of one model, over what its own files say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """None and empty: nothing was said. ``aliases`` are names that the model answers under too;
    ``context_tokens`` caps its own context. ``sampling`` has the fields of `SamplingParams` that a
    request which doesn't name them gets, and ``max_tokens`` is of the same kind.

    ``chat_template`` is a file that takes the place of the model's own templates; ``system`` is
    for conversations that have no system message. ``tool_parser`` names a way of writing tool
    calls. ``adapter`` is a LoRA folder that is always applied.
    """

    aliases: tuple[str, ...] = ()
    is_pinned: bool = False
    keep_alive_s: float | None = None
    context_tokens: int | None = None
    sampling: tuple[tuple[str, float], ...] = ()
    max_tokens: int | None = None
    chat_template: Path | None = None
    system: str | None = None
    tool_parser: str | None = None
    adapter: Path | None = None
