"""What the server itself computes for a streamed token, beside what the model costs.

The processor time of a server's process over a round, all its threads, less that of this process
for the same texts in-process, both by the token. All take the likeliest token, so that neither the
model's step nor drawing is in the difference: what is left is HTTP, JSON, scheduling and the way
from thread to thread. In-process is mlx-lm's batch generator; since that computes log-probabilities
that nobody asked for, the difference from a bare loop is the sharper figure.
"""

from __future__ import annotations

from collections.abc import Sequence

from measuring.speed import Speed
from measuring.turns import take_turns

from rows.bench import BARE, IN_PROCESS, OURS, THEIRS, Bench, in_process_rounds, server_rounds
from rows.figure import Figure, RowResult, at_most, median

STRATEGY = "throughput"
PROMPT_TOKENS = 16  # so that next to nothing of it is reading prompts


async def measure(bench: Bench) -> RowResult:
    sizes = bench.sizes
    max_tokens = sizes.batch_answer_tokens
    async with bench.both_servers(STRATEGY) as (ours, theirs):
        rounds = await take_turns(
            {
                OURS: server_rounds(ours, max_tokens=max_tokens),
                IN_PROCESS: in_process_rounds(bench, max_tokens=max_tokens),
                BARE: in_process_rounds(bench, max_tokens=max_tokens, is_bare=True),
                THEIRS: server_rounds(theirs, max_tokens=max_tokens),
            },
            lambda index: bench.prompts(
                index * 1000, number=sizes.num_streams, num_tokens=PROMPT_TOKENS
            ),
            num_rounds=sizes.num_runs,
        )
    costs = {name: _milliseconds(results) for name, results in rounds.items()}
    detail = ", ".join(f"{name} {median(runs):.3f}" for name, runs in costs.items())
    figures = [
        _figure("CPU a token over the batch generator's", costs[OURS], costs[IN_PROCESS], detail),
        _figure("CPU a token over a bare loop's", costs[OURS], costs[BARE]),
        _figure("  mlx_lm.server's over the batch generator's", costs[THEIRS], costs[IN_PROCESS]),
        _figure("  mlx_lm.server's over a bare loop's", costs[THEIRS], costs[BARE]),
    ]
    return RowResult(
        row="own-cpu",
        model=bench.model.name,
        strategy=STRATEGY,
        figures=figures,
        raw={"speeds": rounds},
    )


def _milliseconds(speeds: Sequence[Speed]) -> list[float]:
    return [speed.cpu_s_per_token * 1000 for speed in speeds]


def _figure(what: str, mine: Sequence[float], theirs: Sequence[float], detail: str = "") -> Figure:
    """Only our own server has a target."""
    return Figure(
        what=what,
        target=None if what.startswith(" ") else at_most(0.10),
        unit="ms",
        runs=[a - b for a, b in zip(mine, theirs, strict=True)],
        detail=detail,
    )
