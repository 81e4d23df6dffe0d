"""What a grammar costs: answers that must be JSON of a schema, beside answers that may be anything.

The schema asks for more records than there is room for, so that no answer ends before its length.
All draw at temperature 1. What is timed begins when all answers have, and ends with an answer's
last token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from measuring.client import Reply
from measuring.server import Running
from measuring.stream import ask_all, completion_body
from measuring.turns import Contender, take_turns

from rows.bench import ROUND_TIMEOUT_S, Bench
from rows.figure import Figure, RowResult, at_least, median, quotients

STRATEGY = "throughput"
NUM_STREAMS = 16
SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "minItems": 10_000,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "kind": {"enum": ["house", "ship", "tree"]},
            "height": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
        },
        "required": ["name", "kind", "height"],
        "additionalProperties": False,
    },
}
CONSTRAINED: Mapping[str, Any] = {
    "temperature": 1.0,
    "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": SCHEMA}},
}
FREE: Mapping[str, Any] = {"temperature": 1.0}


async def measure(bench: Bench) -> RowResult:
    """The plain answer is the last of its batch."""
    number = min(bench.sizes.num_streams, NUM_STREAMS)
    async with bench.ours(STRATEGY) as server:
        one = await _rounds(bench, server, {"constrained": [CONSTRAINED], "free": [FREE]})
        many = await _rounds(
            bench, server, {"constrained": [CONSTRAINED] * number, "free": [FREE] * number}
        )
        beside = await _rounds(
            bench,
            server,
            {"constrained": [*[CONSTRAINED] * (number - 1), FREE], "free": [FREE] * number},
            is_of_last=True,
        )
    target = bench.target_if_real
    figures = [
        _figure("one constrained stream ÷ one free", one, target(at_least(0.9))),
        _figure(f"{number} constrained streams ÷ as many free", many, target(at_least(0.9))),
        _figure(
            f"a free stream beside {number - 1} constrained ÷ beside as many free",
            beside,
            target(at_least(0.97)),
        ),
    ]
    return RowResult(
        row="constrained",
        model=bench.model.name,
        strategy=STRATEGY,
        figures=figures,
        raw={"one": one, "many": many, "beside": beside},
    )


async def _rounds(
    bench: Bench,
    server: Running,
    wishes: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    is_of_last: bool = False,
) -> dict[str, list[float]]:
    sizes = bench.sizes
    number = len(next(iter(wishes.values())))
    rounds = await take_turns(
        {
            name: _contender(bench, server, fields, is_of_last=is_of_last)
            for name, fields in wishes.items()
        },
        lambda index: bench.prompts(index * number, number=number, num_tokens=sizes.prompt_tokens),
        num_rounds=sizes.num_runs,
    )
    return {name: list(runs) for name, runs in rounds.items()}


def _contender(
    bench: Bench, server: Running, fields: Sequence[Mapping[str, Any]], *, is_of_last: bool
) -> Contender[float]:
    async def tokens_per_s(prompts: Sequence[str]) -> float:
        bodies = [
            completion_body(
                server, prompt, max_tokens=bench.sizes.answer_tokens, cache=False, **more
            )
            for prompt, more in zip(prompts, fields, strict=True)
        ]
        replies = await ask_all(server, bodies, timeout_s=ROUND_TIMEOUT_S)
        all_begun_s = max(reply.chunk_times_s[0] for reply in replies)
        counted = replies[-1:] if is_of_last else replies
        return sum(_speed(reply, all_begun_s) for reply in counted)

    return tokens_per_s


def _speed(reply: Reply, all_begun_s: float) -> float:
    """From when all streams have begun: others' prompts are read no more."""
    num_pieces = sum(at_s > all_begun_s for at_s in reply.chunk_times_s)
    return num_pieces / (reply.chunk_times_s[-1] - all_begun_s)


def _figure(what: str, rounds: Mapping[str, Sequence[float]], target: Any) -> Figure:
    speeds = ", ".join(f"{name} {median(runs):.1f}" for name, runs in rounds.items())
    return Figure(
        what=what,
        target=target,
        runs=quotients(rounds["constrained"], rounds["free"]),
        detail=f"tokens/s: {speeds}",
    )
