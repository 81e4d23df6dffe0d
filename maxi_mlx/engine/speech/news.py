"""What the device thread says of a recording while it writes it down."""

from __future__ import annotations

from dataclasses import dataclass

from maxi_mlx.core.transcription import Segment


@dataclass(frozen=True, slots=True)
class WindowNews:
    """A window is done: its segments, and how many seconds are behind it. ``language`` is a code,
    None where there is no text."""

    segments: tuple[Segment, ...]
    processed_s: float
    language: str | None
    is_last: bool
