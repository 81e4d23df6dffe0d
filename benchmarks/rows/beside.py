"""What a running stream feels of other work that comes: its gaps before, and beside it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from measuring.failure import MeasurementFailed
from measuring.server import Running
from measuring.stream import begin, completion_body

from rows.figure import median

FIRST_PIECES = 16  # of a stream that do not count: others' prompts may still be on the way
STREAM_TOKENS = 7000  # more than it will write before it is left; fits in a context of 8,192


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``times_s`` are those of the stream's tokens, from the first one that counts."""

    times_s: Sequence[float]
    sent_s: float  # when the other work was sent, on the same clock
    ended_s: float

    @property
    def median_gap_s(self) -> float:
        """Of the stream by itself."""
        return median(self._gaps_before)

    @property
    def longest_before_s(self) -> float:
        """What the machine does to a stream that is left in peace."""
        return max(self._gaps_before)

    @property
    def longest_gap_s(self) -> float:
        """Of those that reach into the time of the other work."""
        return max(
            after - before
            for before, after in itertools.pairwise(self.times_s)
            if after > self.sent_s and before < self.ended_s
        )

    @property
    def _gaps_before(self) -> list[float]:
        return [
            after - before
            for before, after in itertools.pairwise(self.times_s)
            if after <= self.sent_s
        ]


async def stream_beside(
    server: Running,
    prompt: str,
    work: Callable[[], Awaitable[tuple[float, float]]],
    *,
    num_gaps_alone: int,
) -> Beside:
    """``work`` says when it was sent and when it ended."""
    stream = await begin(server, completion_body(server, prompt, max_tokens=STREAM_TOKENS))
    await stream.wait_for_pieces(FIRST_PIECES + num_gaps_alone)
    sent_s, ended_s = await work()
    await stream.wait_for_pieces(stream.num_pieces + FIRST_PIECES)
    if stream.is_over:
        raise MeasurementFailed(f"{server.name}: the stream ended before the work beside it")
    stream.leave()
    times_s = stream.reply_so_far().chunk_times_s[FIRST_PIECES:]
    return Beside(times_s=times_s, sent_s=sent_s, ended_s=ended_s)
