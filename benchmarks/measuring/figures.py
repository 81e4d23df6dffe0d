"""Turns replies into figures, and figures into a table. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from measuring.client import Reply


class Spread(msgspec.Struct, frozen=True):
    """Seconds, over requests or over gaps."""

    p50: float
    p95: float
    max: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One level of concurrency. Speeds are tokens a second; a stream's is taken after its first
    token, the total's over the wall time of the level. None: nothing to take it from."""

    concurrency: int
    num_requests: int
    num_errors: int
    errors: Mapping[str, int]
    wall_s: float
    requests_per_s: float
    prompt_tokens: float | None
    completion_tokens: int
    counted_by: str  # "usage", or "chunks" where a reply had no usage
    first_token_s: Spread | None
    gap_s: Spread | None
    latency_s: Spread | None
    stream_tokens_per_s: float | None
    total_tokens_per_s: float


def percentile(values: Sequence[float], share: float) -> float:
    """Between the two nearest values, in proportion."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(percentile(values, 0.5), percentile(values, 0.95), max(values))


def summarise(
    replies: Sequence[Reply], *, concurrency: int, wall_s: float, streams: bool
) -> Figures:
    good = [reply for reply in replies if reply.error is None]
    errors = Counter(reply.error for reply in replies if reply.error is not None)
    num_tokens = sum(reply.completion_tokens for reply in good)
    prompts = [reply.prompt_tokens for reply in good if reply.prompt_tokens is not None]
    speeds = [speed for reply in good if (speed := _stream_speed(reply, streams)) is not None]
    firsts = [first for reply in good if (first := reply.first_token_s) is not None]
    return Figures(
        concurrency=concurrency,
        num_requests=len(replies),
        num_errors=errors.total(),
        errors=dict(errors.most_common()),
        wall_s=wall_s,
        requests_per_s=len(good) / wall_s,
        prompt_tokens=percentile(prompts, 0.5) if prompts else None,
        completion_tokens=num_tokens,
        counted_by="chunks" if any(reply.usage_tokens is None for reply in good) else "usage",
        first_token_s=spread(firsts) if streams else None,
        gap_s=spread([gap for reply in good for gap in reply.gaps_s]) if streams else None,
        latency_s=spread([reply.latency_s for reply in good]),
        stream_tokens_per_s=percentile(speeds, 0.5) if speeds else None,
        total_tokens_per_s=num_tokens / wall_s,
    )


def _stream_speed(reply: Reply, streams: bool) -> float | None:
    """From the first token on where that is known, else over the whole request."""
    if not streams:
        return reply.completion_tokens / reply.latency_s
    if len(reply.chunk_times_s) < 2:
        return None
    return (reply.completion_tokens - 1) / (reply.ended_s - reply.chunk_times_s[0])


def table(levels: Sequence[Figures]) -> str:
    lines = aligned([_HEADINGS, _UNITS, *(_row(level) for level in levels)])
    for level in levels:
        lines += [
            f"{level.concurrency} at once: {count} x {kind}" for kind, count in level.errors.items()
        ]
    if any(level.counted_by == "chunks" for level in levels):
        lines.append("Some replies had no usage: each of their chunks counts as one token.")
    return "\n".join(lines)


_HEADINGS = (
    *("at", "requests", "errors", "prompt"),
    *("first token", "", "gap", "", "", "latency", ""),
    *("one stream", "all", "requests"),
)
_UNITS = (
    *("once", "", "", "tokens"),
    *("p50 ms", "p95 ms", "p50 ms", "p95 ms", "max ms", "p50 ms", "p95 ms"),
    *("tokens/s", "tokens/s", "per s"),
)


def _row(level: Figures) -> tuple[str, ...]:
    return (
        *(str(level.concurrency), str(level.num_requests), str(level.num_errors)),
        number(level.prompt_tokens, 0),
        *_milliseconds(level.first_token_s)[:2],
        *_milliseconds(level.gap_s),
        *_milliseconds(level.latency_s)[:2],
        number(level.stream_tokens_per_s, 1),
        number(level.total_tokens_per_s, 1),
        number(level.requests_per_s, 2),
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with each column as wide as its widest cell, to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _milliseconds(values: Spread | None) -> tuple[str, ...]:
    if values is None:
        return ("-", "-", "-")
    return tuple(number(value * 1000, 1) for value in (values.p50, values.p95, values.max))
