"""What the server itself computes for a streamed token, beside what the model costs.

The processor time of a server's process over a round, all its threads, less that of this process
for the same texts by the batch generator, both by the token. Both take the likeliest token, so that
neither the model's step nor drawing is in the difference: what is left is HTTP, JSON, scheduling
and the way from thread to thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from measuring.speed import Speed
from measuring.turns import take_turns

from rows.bench import IN_PROCESS, OURS, THEIRS, Bench, in_process_rounds, server_rounds
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
        Figure(
            what=f"CPU a token over in-process, {sizes.num_streams} streams, greedy",
            target=at_most(0.10),
            unit="ms",
            runs=_differences(costs[OURS], costs[IN_PROCESS]),
            detail=f"ms a token: {detail}",
        ),
        Figure(
            what="  mlx_lm.server's over in-process",
            target=None,
            unit="ms",
            runs=_differences(costs[THEIRS], costs[IN_PROCESS]),
        ),
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


def _differences(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(mine, theirs, strict=True)]
