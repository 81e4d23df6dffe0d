"""The most memory that a request takes whose beginning is known, beside one that reads it all.

A process's peak only rises. So the hit is measured twice: in the server that has read the beginning
before, where the figure can't be less than 1, and in one that finds it on disk after a restart. The
peak is of a whole process, the model's weights among it, as it decides what fits on a machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from measuring.server import Running, running_mlx_lm_server
from measuring.stats import settled

from rows.bench import DEFAULT_STRATEGY, Bench, first_token
from rows.figure import Figure, RowResult, at_most, median, quotients


class Peaks(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, after the request that misses, after one that then hits, and after one that hits
    in a server that was started anew."""

    missed: int
    known: int
    restarted: int
    their_missed: int
    their_known: int


async def measure(bench: Bench) -> RowResult:
    peaks = [await _run(bench, index) for index in range(bench.sizes.num_memory_runs)]
    missed = [peak.missed for peak in peaks]
    what = f"peak memory, {bench.sizes.known_tokens:,} tokens known ÷ cold"
    figures = [
        _figure(what, [peak.known for peak in peaks], missed, is_promised=True),
        _figure(f"{what}, from disk", [peak.restarted for peak in peaks], missed, is_promised=True),
        _figure(
            "  mlx_lm.server, the first of these",
            [peak.their_known for peak in peaks],
            [peak.their_missed for peak in peaks],
        ),
    ]
    return RowResult(
        row="peak-memory",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=figures,
        raw={"peaks": peaks},
    )


async def _run(bench: Bench, index: int) -> Peaks:
    first, second, third = bench.prompts_alike(
        index * 1000, number=3, num_shared=bench.sizes.known_tokens
    )
    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as folder:
        async with bench.ours(cache_dir=Path(folder)) as server:
            missed, known = await _peak(server, first), await _peak(server, second)
        async with bench.ours(cache_dir=Path(folder)) as server:
            restarted = await _peak(server, third)
    async with running_mlx_lm_server(bench.model.folder) as theirs:
        their_missed, their_known = await _peak(theirs, first), await _peak(theirs, second)
    return Peaks(
        missed=missed,
        known=known,
        restarted=restarted,
        their_missed=their_missed,
        their_known=their_known,
    )


async def _peak(server: Running, prompt: str) -> int:
    await first_token(server, prompt)
    return (await settled(server)).memory.peak_bytes


def _figure(
    what: str, mine: Sequence[int], theirs: Sequence[int], *, is_promised: bool = False
) -> Figure:
    return Figure(
        what=what,
        target=at_most(1.1) if is_promised else None,
        runs=quotients(mine, theirs),
        detail=f"{median(mine) / 2**20:.1f} and {median(theirs) / 2**20:.1f} MiB",
    )
