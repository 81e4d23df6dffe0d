"""What the server itself computes for a streamed token, beside what the model costs.

The processor time of a server's process, all its threads, from when all streams have begun to their
end, less that of this process for the same texts in-process, both by the token. All take the
likeliest token, so that neither the model's step nor drawing is in the difference: what is left is
HTTP, JSON, scheduling and the way from thread to thread. In-process is mlx-lm's batch generator.
Since that computes log-probabilities that nobody asked for, which hides a server's own cost, there
is a bare loop beside it; it is a target on a tiny model, where a batch's masks cost little.
"""

from __future__ import annotations

from collections.abc import Sequence

from measuring.speed import Speed
from measuring.turns import take_turns

from rows.bench import BARE, IN_PROCESS, OURS, THEIRS, Bench, in_process_rounds, server_rounds
from rows.figure import Figure, RowResult, at_most, median

STRATEGY = "throughput"
PROMPT_TOKENS = 16


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
        _figure("  mlx_lm.server's over the batch generator's", costs[THEIRS], costs[IN_PROCESS]),
        _figure(_over_bare(bench), costs[OURS], costs[BARE]),
        _figure("  mlx_lm.server's over a bare loop's", costs[THEIRS], costs[BARE]),
    ]
    return RowResult(
        row="own-cpu",
        model=bench.model.name,
        strategy=STRATEGY,
        figures=figures,
        raw={"speeds": rounds},
    )


def _over_bare(bench: Bench) -> str:
    return f"{'' if bench.model.is_tiny else '  '}CPU a token over a bare loop's"


def _milliseconds(speeds: Sequence[Speed]) -> list[float]:
    return [speed.cpu_s_per_token * 1000 for speed in speeds]


def _figure(what: str, mine: Sequence[float], theirs: Sequence[float], detail: str = "") -> Figure:
    """What is set in is for comparison, and has no target."""
    return Figure(
        what=what,
        target=None if what.startswith(" ") else at_most(0.10),
        unit="ms",
        runs=[a - b for a, b in zip(mine, theirs, strict=True)],
        detail=detail,
    )
