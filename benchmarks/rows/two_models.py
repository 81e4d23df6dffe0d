"""Two models that write at once, beside one alone: what it costs to step them in turn.

Both are the same model under two names, so that one alone is the measure of either: a step of one
reads its weights and leaves nothing of use to the other's. Both are loaded before anything counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from measuring.speed import Speed
from measuring.turns import take_turns

from rows.bench import DEFAULT_STRATEGY, Bench, server_rounds, tokens_per_s
from rows.figure import Figure, RowResult, at_least, median, quotients

ALONE, TOGETHER = "one alone", "two together"


async def measure(bench: Bench) -> RowResult:
    sizes = bench.sizes
    async with bench.ours_with_twins() as (server, names):
        one, two = (
            server_rounds(
                server, max_tokens=sizes.answer_tokens, fields=[{"model": name} for name in asked]
            )
            for asked in (names[:1], names)
        )

        async def alone(prompts: Sequence[str]) -> Speed:
            return await one(prompts[:1])

        async def together(prompts: Sequence[str]) -> Speed:
            return await two(prompts[1:])

        rounds = await take_turns(
            {ALONE: alone, TOGETHER: together},
            lambda index: bench.prompts(
                index * 1000, number=1 + len(names), num_tokens=sizes.prompt_tokens
            ),
            num_rounds=sizes.num_runs,
        )
    speeds = {name: tokens_per_s(results) for name, results in rounds.items()}
    figure = Figure(
        what="two models at once, tokens/s of both ÷ of one alone",
        target=at_least(0.9),
        runs=quotients(speeds[TOGETHER], speeds[ALONE]),
        detail=f"{median(speeds[TOGETHER]):.1f} and {median(speeds[ALONE]):.1f} tokens/s",
    )
    return RowResult(
        row="two-models",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=[figure],
        raw={"speeds": rounds},
    )
