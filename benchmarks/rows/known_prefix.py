"""The first token of a prompt whose beginning the server has read before, for another prompt.

┌────────── 2,000 tokens ──────────┬── 20 ──┐
│            beginning             │ first  │   cold: nothing of it is known
│            beginning             │ second │   known: the beginning is
└──────────────────────────────────┴────────┘
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from measuring.server import Running
from measuring.stats import settled
from measuring.turns import Contender, take_turns

from rows.bench import DEFAULT_STRATEGY, OURS, OWN_TOKENS, THEIRS, Bench, FirstToken, first_token
from rows.figure import Figure, RowResult, at_most, median

WARM_UP_TOKENS = 64  # of the round that does not count


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    cold: FirstToken
    known: FirstToken

    @property
    def ratio(self) -> float:
        return self.known.seconds / self.cold.seconds


async def measure(bench: Bench) -> RowResult:
    sizes = bench.sizes
    async with bench.both_servers() as (ours, theirs):
        pairs = await take_turns(
            {OURS: _contender(ours), THEIRS: _contender(theirs)},
            lambda index: bench.prompts_alike(
                index * 1000,
                number=2,
                num_shared=sizes.known_tokens if index else WARM_UP_TOKENS,
            ),
            num_rounds=sizes.num_runs,
        )
    what = f"{sizes.known_tokens:,} tokens known, {OWN_TOKENS} new ÷ cold"
    figures = [
        Figure(
            what=f"first token, {what}",
            target=bench.target_if_real(at_most(0.08)),
            runs=[pair.ratio for pair in pairs[OURS]],
            detail=described(pairs[OURS]),
        ),
        Figure(
            what="  mlx_lm.server, the same",
            target=None,
            runs=[pair.ratio for pair in pairs[THEIRS]],
            detail=described(pairs[THEIRS]),
        ),
    ]
    return RowResult(
        row="ttft-known",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=figures,
        raw={"pairs": pairs},
    )


def _contender(server: Running) -> Contender[Pair]:
    async def measure_pair(prompts: Sequence[str]) -> Pair:
        first, second = prompts
        cold = await first_token(server, first)
        # Nobody asks for the next turn while the last is being put away.
        await settled(server)
        return Pair(cold=cold, known=await first_token(server, second))

    return measure_pair


def described(pairs: Sequence[Pair]) -> str:
    """Medians."""
    known_s = median([pair.known.seconds for pair in pairs])
    cold_s = median([pair.cold.seconds for pair in pairs])
    cached = median([pair.known.cached_tokens for pair in pairs])
    prompt = median([pair.known.prompt_tokens for pair in pairs])
    return f"{known_s * 1000:.0f} and {cold_s * 1000:.0f} ms; {cached:.0f} of {prompt:.0f} cached"
