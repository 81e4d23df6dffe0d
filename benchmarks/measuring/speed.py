"""How fast one contender was in one round, and how contenders compare over rounds. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from measuring.figures import aligned, number, percentile


class Speed(msgspec.Struct, frozen=True):
    """All texts of a round together: tokens written, seconds from the first prompt to the last
    token, each text's time to its first token. From when all of them had begun on: what the
    contender's process computed, and how many tokens were written."""

    num_tokens: int
    seconds: float
    first_token_s: tuple[float, ...]
    cpu_s: float = 0.0
    num_cpu_tokens: int = 0

    @property
    def tokens_per_s(self) -> float:
        return self.num_tokens / self.seconds

    @property
    def cpu_s_per_token(self) -> float:
        return self.cpu_s / self.num_cpu_tokens


Rounds = Mapping[str, Sequence[Speed]]  # contender: its rounds, the first with the first, and so on


def ratios(rounds: Rounds, name: str, other: str) -> list[float]:
    """``name``'s speed by ``other``'s, round by round: what slows the machine slows both."""
    return [
        mine.tokens_per_s / theirs.tokens_per_s
        for mine, theirs in zip(rounds[name], rounds[other], strict=True)
    ]


def comparison(levels: Mapping[int, Rounds]) -> str:
    """A table with a row for each concurrency: medians over rounds, ratios with their range."""
    names = list(next(iter(levels.values())))
    pairs = [(b, a) for index, a in enumerate(names) for b in names[index + 1 :]]
    headings = ["at once"]
    for name in names:
        headings += [f"{name} tokens/s", "first token ms"]
    headings += [f"{name} ÷ {other}" for name, other in pairs]
    rows = [headings]
    for concurrency, rounds in levels.items():
        row = [str(concurrency)]
        for name in names:
            row += [
                number(_median([speed.tokens_per_s for speed in rounds[name]]), 1),
                number(_first_token_ms(rounds[name]), 0),
            ]
        rows.append(row + [_with_range(ratios(rounds, *pair)) for pair in pairs])
    return "\n".join(aligned(rows))


def _with_range(values: Sequence[float]) -> str:
    return f"{_median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def _first_token_ms(speeds: Sequence[Speed]) -> float | None:
    firsts = [first for speed in speeds for first in speed.first_token_s]
    return _median(firsts) * 1000 if firsts else None


def _median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)
