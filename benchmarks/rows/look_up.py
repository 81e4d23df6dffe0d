"""How long the store looks among 10,000 stored prompts of 4,000 tokens. In this process: a part of
a request that is too short to be seen from outside.

The prompts are stored with caches that have no layers, since it is their tokens that are looked
up. mlx-lm's prompt cache is not in the comparison: with one dict a token, it would take 10 GB.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from measuring.failure import MeasurementFailed
from measuring.figures import percentile

from rows.apart import NAME, Apart
from rows.figure import Figure, RowResult, at_most, median

NUM_TEXTS, NUM_TOKENS = 10_000, 4_000
NUM_LOOK_UPS = 60  # of a run
NUM_SHARED = (0, 2_000)  # tokens that all texts begin with
VOCABULARY = 50_000
BLOCK_BYTES = 4  # of a random number that becomes a token

Find = Callable[[Sequence[int]], int]


async def measure(apart: Apart) -> RowResult:
    times_ms = {num_shared: _measure(num_shared, apart.sizes.num_runs) for num_shared in NUM_SHARED}
    figures = [
        Figure(
            what=f"look-up among {NUM_TEXTS:,} prompts of {NUM_TOKENS:,} tokens{_shared(number)}",
            target=at_most(2.0),
            unit="ms",
            runs=[median(run) for run in runs],
            detail=f"99 % within {percentile([ms for run in runs for ms in run], 0.99):.3f} ms",
        )
        for number, runs in times_ms.items()
    ]
    return RowResult(row="look-up", model=NAME, strategy="", figures=figures, raw={"ms": times_ms})


def _shared(number: int) -> str:
    return f", {number:,} of them shared" if number else ""


def _measure(num_shared: int, num_runs: int) -> list[list[float]]:
    """Milliseconds of each look-up, run by run: of texts that are stored, of such that part from
    one on the way, and of new ones."""
    from maxi_mlx.kv_cache.store import PrefixStore

    chance = random.Random(num_shared)
    shared = _tokens(chance, num_shared)
    store = PrefixStore(1 << 30).open("look-up", list)
    known = []
    for index in range(NUM_TEXTS):
        text = [*shared, *_tokens(chance, NUM_TOKENS - num_shared)]
        store.keep(text, [])
        if index % (NUM_TEXTS // NUM_LOOK_UPS) == 0:
            known.append(text)

    def find(text: Sequence[int]) -> int:
        return store.find(text, most_tokens=len(text) - 1).num_tokens

    return [_run(chance, find, known, shared) for _ in range(num_runs)]


def _run(
    chance: random.Random, find: Find, known: Sequence[list[int]], shared: Sequence[int]
) -> list[float]:
    times_ms = []
    for index in range(NUM_LOOK_UPS):
        text = chance.choice(known)
        place = chance.randrange(max(len(shared), 1), NUM_TOKENS)
        asked, expected = (
            (text, NUM_TOKENS - 1),
            ([*text[:place], VOCABULARY, *text[place:-1]], place),
            ([*shared, *_tokens(chance, NUM_TOKENS - len(shared))], len(shared)),
        )[index % 3]
        began_s = time.perf_counter()
        found = find(asked)
        times_ms.append((time.perf_counter() - began_s) * 1000)
        if found < expected:
            raise MeasurementFailed(f"the store found {found} of {expected} tokens")
    return times_ms


def _tokens(chance: random.Random, number: int) -> list[int]:
    """Random ones, quickly."""
    data = memoryview(chance.randbytes(BLOCK_BYTES * number)).cast("I")
    return [value % VOCABULARY for value in data]
