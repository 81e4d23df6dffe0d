"""32 streams that draw, each by its own seed, beside a batch generator that takes the likeliest.

mlx_lm.server gets the same temperature and top-p, but no seeds: with one it answers requests one
after the other. That is the best it can do.
"""

from __future__ import annotations

from typing import Any

from measuring.turns import take_turns

from rows.bench import (
    IN_PROCESS,
    OURS,
    THEIRS,
    Bench,
    in_process_rounds,
    server_rounds,
    tokens_per_s,
)
from rows.figure import Figure, RowResult, at_least, median, quotients

STRATEGY = "throughput"  # the default lets 16 answers run at once
SAMPLING = {"temperature": 0.7, "top_p": 0.9}


async def measure(bench: Bench) -> RowResult:
    sizes = bench.sizes
    max_tokens = sizes.batch_answer_tokens
    seeded: list[dict[str, Any]] = [{**SAMPLING, "seed": i} for i in range(sizes.num_streams)]
    async with bench.both_servers(STRATEGY) as (ours, theirs):
        rounds = await take_turns(
            {
                OURS: server_rounds(ours, max_tokens=max_tokens, fields=seeded),
                IN_PROCESS: in_process_rounds(bench, max_tokens=max_tokens),
                THEIRS: server_rounds(
                    theirs, max_tokens=max_tokens, fields=[SAMPLING] * sizes.num_streams
                ),
            },
            lambda index: bench.prompts(
                index * 1000, number=sizes.num_streams, num_tokens=sizes.batch_prompt_tokens
            ),
            num_rounds=sizes.num_runs,
        )
    speeds = {name: tokens_per_s(results) for name, results in rounds.items()}
    detail = ", ".join(f"{name} {median(runs):.0f}" for name, runs in speeds.items())
    figures = [
        Figure(
            what=f"{sizes.num_streams} streams, own seeds, server ÷ batch generator, greedy",
            target=at_least(bench.target(tiny=0.75, real=0.95)),
            runs=quotients(speeds[OURS], speeds[IN_PROCESS]),
            detail=f"tokens/s: {detail}",
        ),
        Figure(
            what=f"{sizes.num_streams} streams, the same ÷ mlx_lm.server, unseeded",
            target=at_least(bench.target(tiny=2.0, real=1.2)),
            runs=quotients(speeds[OURS], speeds[THEIRS]),
        ),
    ]
    return RowResult(
        row="many-streams",
        model=bench.model.name,
        strategy=STRATEGY,
        figures=figures,
        raw={"speeds": rounds},
    )
