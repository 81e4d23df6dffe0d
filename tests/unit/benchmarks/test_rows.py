"""The machines of the suite's rows: targets, turns, gaps, requests of all kinds."""

from __future__ import annotations

import pytest
from measuring.chat import Turn
from measuring.server import Running
from measuring.stats import MemoryStats, PrefixStats, Stats
from measuring.turns import take_turns
from rows import look_up
from rows.bench import Bench, FirstToken
from rows.figure import Figure, Target, at_least, at_most, quotients
from rows.known_prefix import Pair, described
from rows.memory import Growth, mixed_requests
from rows.shared_bytes import shared_tokens
from rows.sizes import sizes_for
from rows.stall import Stall
from rows.turns import new_tokens

from tests.models.folder import prepare_device

SERVER = Running(name="maxi-mlx", port=1, model="m", pid=1)


@pytest.mark.parametrize(
    ("target", "runs", "is_met"),
    [
        (at_least(0.9), [0.5, 0.9, 5.0], True),
        (at_least(0.9), [0.5, 0.89, 5.0], False),
        (at_most(4.0), [3.0, 4.0, 9.0], True),
        (at_most(4.0), [3.0, 4.1, 9.0], False),
        (None, [1.0], None),
    ],
)
def test_the_median_meets_a_target(
    target: Target | None, runs: list[float], is_met: bool | None
) -> None:
    assert Figure(what="x", target=target, runs=runs).is_met is is_met


def test_how_a_target_is_written() -> None:
    assert (str(at_least(0.90)), str(at_most(4.0))) == ("≥ 0.9", "≤ 4")


def test_quotients_are_taken_run_by_run() -> None:
    assert quotients([1.0, 6.0], [2.0, 3.0]) == [0.5, 2.0]


async def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    asked: list[str] = []

    def contender(name: str):  # type: ignore[no-untyped-def]
        async def measure(prompts: list[str]) -> str:
            asked.append(name)
            return name + prompts[0]

        return measure

    contenders = {name: contender(name) for name in "abc"}
    rounds = await take_turns(contenders, lambda index: [str(index)], num_rounds=2)
    assert rounds == {"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["c1", "c2"]}
    assert "".join(asked) == "cba" + "abc" + "cba"


def test_gaps_of_a_stream_beside_a_prompt() -> None:
    stall = Stall(
        times_s=[0.0, 1.0, 2.0, 3.5, 4.5, 9.5, 10.5, 30.5],
        sent_s=4.0,
        ended_s=9.7,
        prompt_alone_s=4.0,
        prompt_beside_s=5.0,
    )
    assert stall.median_gap_s == 1.0
    assert stall.longest_before_s == 1.5
    assert stall.longest_gap_s == 5.0  # not the one of 20, which began when the prompt was done


@pytest.mark.parametrize("is_tiny", [True, False])
def test_a_whole_run_is_what_was_promised(is_tiny: bool) -> None:
    sizes = sizes_for(is_tiny=is_tiny, is_quick=False)
    assert sizes.num_runs >= 5
    promised = (sizes.num_streams, sizes.num_arrivals, sizes.long_prompt_tokens)
    assert (*promised, sizes.known_tokens) == (32, 16, 4000, 2000)
    assert (sizes.num_requests, sizes.num_first_requests) == (500, 10)


class Cutter:
    """Stands for a tokenizer of one token a word."""

    def cut(self, text: str, num_tokens: int) -> str:
        return " ".join(text.split()[:num_tokens])


def test_mixed_requests_are_of_all_kinds_and_the_same_each_time() -> None:
    sizes = sizes_for(is_tiny=True, is_quick=False)
    bench = Bench(None, sizes, Cutter())  # type: ignore[arg-type]
    asked = list(mixed_requests(bench, SERVER, 3, number=300))
    assert asked == list(mixed_requests(bench, SERVER, 3, number=300))
    assert asked != list(mixed_requests(bench, SERVER, 4, number=300))
    assert 30 < sum(request.num_pieces is not None for request in asked) < 90
    assert {request.path for request in asked} == {"completions", "chat/completions"}
    keys = {key for request in asked for key in request.body}
    assert keys >= {"logprobs", "n", "stop", "seed", "logit_bias", "top_k", "messages", "prompt"}
    for request in asked:
        assert ("messages" in request.body) == (request.path == "chat/completions")
        assert ("stream_options" in request.body) == request.body["stream"]


def test_prompts_that_begin_alike() -> None:
    bench = Bench(None, sizes_for(is_tiny=True, is_quick=True), Cutter())  # type: ignore[arg-type]
    prompts = bench.prompts_alike(7, number=3, num_shared=30, num_own=12)
    words = [prompt.split() for prompt in prompts]
    assert [len(row) for row in words] == [42] * 3
    assert words[0][:30] == words[1][:30] == words[2][:30]
    assert len({row[30] for row in words}) == 3
    assert bench.prompts(7, number=1, num_tokens=30) == [" ".join(words[0][:30])]


def test_a_known_beginning_beside_a_cold_one() -> None:
    pairs = [
        Pair(cold=FirstToken(2.0, 2020, 0), known=FirstToken(known_s, 2021, 2001))
        for known_s in (0.1, 0.2, 0.5)
    ]
    assert [pair.ratio for pair in pairs] == [0.05, 0.1, 0.25]
    assert described(pairs) == "200 and 2000 ms; 2001 of 2021 cached"


@pytest.mark.parametrize(
    ("prompts", "number"),
    [
        ([[1, 2, 3, 4], [1, 2, 9, 4], [1, 2, 3, 4]], 2),
        ([[1, 2], [1, 2, 3]], 2),
        ([[1], [2]], 0),
        ([[1, 2, 3]], 3),
    ],
)
def test_what_all_prompts_begin_with(prompts: list[list[int]], number: int) -> None:
    assert shared_tokens(prompts) == number


def test_an_answer_is_not_new_in_the_next_prompt() -> None:
    turns = [
        Turn(text="", prompt_tokens=prompt, cached_tokens=0, completion_tokens=60)
        for prompt in (100, 205, 300)
    ]
    assert new_tokens(turns) == 100 + 45 + 35


def test_stored_prefixes_are_not_left_behind() -> None:
    def stats(active_bytes: int, stored_bytes: int) -> Stats:
        memory = MemoryStats(active_bytes=active_bytes, peak_bytes=9999)
        return Stats(memory=memory, prefix_cache=PrefixStats(bytes=stored_bytes))

    growth = Growth(first=stats(1100, 100), last=stats(2010, 1000), num_cancelled=0)
    assert growth.ratio == 1.01


def test_texts_are_looked_up_that_are_stored_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_up, "NUM_TEXTS", 60)
    monkeypatch.setattr(look_up, "NUM_TOKENS", 600)
    prepare_device()
    runs = look_up._measure(40, 2)
    assert [len(run) for run in runs] == [look_up.NUM_LOOK_UPS] * 2
    assert all(0 < ms < 1000 for run in runs for ms in run)
