"""One stream: what the server leaves of stream_generate's speed."""

from __future__ import annotations

from measuring.turns import take_turns

from rows.bench import (
    DEFAULT_STRATEGY,
    IN_PROCESS,
    OURS,
    THEIRS,
    Bench,
    in_process_rounds,
    server_rounds,
    tokens_per_s,
)
from rows.figure import Figure, RowResult, at_least, median, quotients


async def measure(bench: Bench) -> RowResult:
    """Greedy, so that all write the same tokens."""
    sizes = bench.sizes
    async with bench.both_servers() as (ours, theirs):
        rounds = await take_turns(
            {
                OURS: server_rounds(ours, max_tokens=sizes.answer_tokens),
                IN_PROCESS: in_process_rounds(bench, max_tokens=sizes.answer_tokens),
                THEIRS: server_rounds(theirs, max_tokens=sizes.answer_tokens),
            },
            lambda index: bench.prompts(index, number=1, num_tokens=sizes.prompt_tokens),
            num_rounds=sizes.num_runs,
        )
    speeds = {name: tokens_per_s(results) for name, results in rounds.items()}
    detail = ", ".join(f"{name} {median(runs):.1f}" for name, runs in speeds.items())
    figures = [
        Figure(
            what="one stream, tokens/s, server ÷ stream_generate",
            target=at_least(bench.target(tiny=0.90, real=0.97)),
            runs=quotients(speeds[OURS], speeds[IN_PROCESS]),
            detail=f"tokens/s: {detail}",
        ),
        Figure(
            what="  mlx_lm.server ÷ stream_generate",
            target=None,
            runs=quotients(speeds[THEIRS], speeds[IN_PROCESS]),
        ),
    ]
    return RowResult(
        row="one-stream",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=figures,
        raw={"speeds": rounds},
    )
