"""16 requests that arrive at once: how long the last of them waits for their first token."""

from __future__ import annotations

from measuring.figures import percentile
from measuring.turns import take_turns

from rows.bench import DEFAULT_STRATEGY, OURS, THEIRS, Bench, server_rounds
from rows.figure import Figure, RowResult, at_most, median, quotients

ANSWER_TOKENS = 16


async def measure(bench: Bench) -> RowResult:
    sizes = bench.sizes
    async with bench.both_servers() as (ours, theirs):
        rounds = await take_turns(
            {
                OURS: server_rounds(ours, max_tokens=ANSWER_TOKENS),
                THEIRS: server_rounds(theirs, max_tokens=ANSWER_TOKENS),
            },
            lambda index: bench.prompts(
                index * 1000, number=sizes.num_arrivals, num_tokens=sizes.prompt_tokens
            ),
            num_rounds=sizes.num_runs,
        )
    p95 = {
        name: [percentile(speed.first_token_s, 0.95) for speed in speeds]
        for name, speeds in rounds.items()
    }
    detail = ", ".join(f"{name} {median(runs) * 1000:.0f}" for name, runs in p95.items())
    figure = Figure(
        what=f"first token of {sizes.num_arrivals} at once, p95 ÷ mlx_lm.server's",
        target=at_most(0.7),
        runs=quotients(p95[OURS], p95[THEIRS]),
        detail=f"ms: {detail}",
    )
    return RowResult(
        row="arrivals",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=[figure],
        raw={"speeds": rounds},
    )
