"""The first token of a prompt whose beginning a server read that has ended since.

Every beginning is read cold by one server, and asked for anew at the next one, which has the first
one's folder and nothing in memory. Both have read a short prompt before, so that neither pays for
its first step. mlx_lm.server keeps nothing, and is not in the comparison.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from measuring.stats import settled

from rows.bench import DEFAULT_STRATEGY, OWN_TOKENS, Bench, FirstToken, first_token
from rows.figure import Figure, RowResult, at_most
from rows.known_prefix import WARM_UP_TOKENS, Pair, described


async def measure(bench: Bench) -> RowResult:
    sizes = bench.sizes
    prompts = [
        bench.prompts_alike(index * 1000, number=2, num_shared=sizes.known_tokens)
        for index in range(1, sizes.num_runs + 1)
    ]
    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as folder:
        cold = await _first_tokens(bench, Path(folder), 0, [first for first, _ in prompts])
        known = await _first_tokens(bench, Path(folder), 1, [second for _, second in prompts])
    pairs = [Pair(cold=a, known=b) for a, b in zip(cold, known, strict=True)]
    figure = Figure(
        what=f"first token after a restart, {sizes.known_tokens:,} tokens on disk, "
        f"{OWN_TOKENS} new ÷ cold",
        target=bench.target_if_real(at_most(0.20)),
        runs=[pair.ratio for pair in pairs],
        detail=described(pairs),
    )
    return RowResult(
        row="ttft-restart",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=[figure],
        raw={"pairs": pairs},
    )


async def _first_tokens(
    bench: Bench, cache_dir: Path, number: int, prompts: list[str]
) -> list[FirstToken]:
    """Of the ``number``-th server on that folder."""
    warm_up = bench.prompts(number, number=1, num_tokens=WARM_UP_TOKENS)
    async with bench.ours(cache_dir=cache_dir) as server:
        results = []
        for prompt in (*warm_up, *prompts):
            results.append(await first_token(server, prompt))
            await settled(server)
    return results[1:]
