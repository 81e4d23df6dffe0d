"""Segments of speech as SubRip and WebVTT. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from maxi_mlx.core.transcription import Segment


def srt(segments: Iterable[Segment]) -> str:
    blocks = [
        f"{number}\n{_time(segment.start_s, ',')} --> {_time(segment.end_s, ',')}\n"
        f"{_one_line(segment.text)}\n"
        for number, segment in enumerate(segments, start=1)
    ]
    return "\n".join(blocks)


def vtt(segments: Iterable[Segment]) -> str:
    blocks = [
        f"{_time(segment.start_s, '.')} --> {_time(segment.end_s, '.')}\n"
        f"{_escaped(_one_line(segment.text))}\n"
        for segment in segments
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def _time(seconds: float, mark: str) -> str:
    milliseconds = round(max(seconds, 0.0) * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    full_seconds, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{full_seconds:02}{mark}{milliseconds:03}"


def _one_line(text: str) -> str:
    # An arrow or an empty line would end the block.
    return " ".join(text.split()).replace("-->", "->")


def _escaped(text: str) -> str:
    """In WebVTT these begin a character's name and a tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
