"""How long a look-up takes among many stored texts."""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

from maxi_mlx.kv_cache.store import PrefixStore

NUM_TEXTS, NUM_TOKENS = 10_000, 4_000


@pytest.mark.slow
@pytest.mark.parametrize("num_shared", [0, 1, 100, 3_900], ids="{}_shared".format)
def test_a_look_up_is_quick_among_many_texts(num_shared: int) -> None:
    """Caches without layers, since it is the tree that is looked up."""
    model = PrefixStore(1 << 30).open("model", list)
    random = np.random.default_rng(1)
    shared = random.integers(0, 50_000, num_shared).tolist()

    def text() -> list[int]:
        return [*shared, *random.integers(0, 50_000, NUM_TOKENS - num_shared).tolist()]

    some = []
    for i in range(NUM_TEXTS):
        stored = text()
        model.keep(stored, [])
        if i % 100 == 0:
            some.append(stored)
    assert model.stats().num_conversations == NUM_TEXTS
    took_s = []
    for stored in some:
        place = int(random.integers(max(num_shared, 1), NUM_TOKENS))
        for asked, expected in (
            (stored, NUM_TOKENS - 1),
            ([*stored[:place], 60_000, *stored[place:]], place),
            (text(), num_shared),
        ):
            start_s = time.perf_counter()
            match = model.find(asked, most_tokens=NUM_TOKENS - 1)
            took_s.append(time.perf_counter() - start_s)
            # Another text may begin with the same few tokens.
            assert expected <= match.num_tokens <= expected + 3
    print(f"{num_shared} shared: median {statistics.median(took_s) * 1e6:.0f} us, ", end="")  # noqa: T201
    print(f"most {max(took_s) * 1e6:.0f} us")  # noqa: T201
    assert statistics.median(took_s) <= 0.002
