"""What hundreds of requests of all kinds leave behind in the device's memory.

Less what the store of prefixes says that it keeps of them. The store is a small one, which is full
most of the time: its buffers may be larger than what is in them, but there are only so many; what
is looked for is what would grow for ever.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import msgspec
from measuring.failure import MeasurementFailed
from measuring.server import Running
from measuring.stats import Stats, settled
from measuring.stream import begin, completion_body

from rows.bench import DEFAULT_STRATEGY, ROUND_TIMEOUT_S, Bench
from rows.figure import Figure, RowResult, at_most, median

NUM_AT_ONCE = 12
CANCELLED_SHARE = 0.2
STORED_TOKENS = 2048


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """One run: the server's figures at rest, after a few requests and after all."""

    first: Stats
    last: Stats
    num_cancelled: int

    @property
    def ratio(self) -> float:
        return left_bytes(self.last) / left_bytes(self.first)


def left_bytes(stats: Stats) -> int:
    return stats.memory.active_bytes - stats.prefix_cache.bytes


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request; with ``num_pieces``, left when so many pieces of the answer have come."""

    path: str
    body: dict[str, Any]
    num_pieces: int | None


async def measure(bench: Bench) -> RowResult:
    growths = [await _run(bench, index) for index in range(bench.sizes.num_memory_runs)]
    sizes = bench.sizes
    first = median([left_bytes(growth.first) / 2**20 for growth in growths])
    last = median([left_bytes(growth.last) / 2**20 for growth in growths])
    kept = median([growth.last.prefix_cache.bytes / 2**20 for growth in growths])
    cancelled = median([growth.num_cancelled for growth in growths])
    figure = Figure(
        what=f"memory after {sizes.num_requests} requests ÷ after {sizes.num_first_requests}",
        target=at_most(1.02),
        runs=[growth.ratio for growth in growths],
        detail=f"{last:.2f} and {first:.2f} MiB, beside {kept:.2f} of stored prefixes; "
        f"{cancelled:.0f} cancelled",
    )
    return RowResult(
        row="memory",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=[figure],
        raw={"growths": growths},
    )


async def _run(bench: Bench, index: int) -> Growth:
    sizes = bench.sizes
    limit_bytes = int(STORED_TOKENS * bench.in_process.cache_bytes_per_token())
    async with bench.ours(flags=("--cache-memory", str(limit_bytes))) as server:
        asked = mixed_requests(bench, server, index, number=sizes.num_requests)
        few = [next(asked) for _ in range(sizes.num_first_requests)]
        rest = list(asked)
        await _send(server, few)
        first = await settled(server)
        await _send(server, rest)
        last = await settled(server)
    num_cancelled = sum(request.num_pieces is not None for request in (*few, *rest))
    return Growth(first=first, last=last, num_cancelled=num_cancelled)


def mixed_requests(bench: Bench, server: Running, index: int, *, number: int) -> Iterator[Asked]:
    """The same ones for the same ``index``: both endpoints, streams and whole answers, every
    sampling setting, several choices, log-probabilities, and some that are left half way."""
    chance = random.Random(index)
    for place in range(number):
        num_tokens = chance.randrange(4, bench.sizes.prompt_tokens)
        (prompt,) = bench.prompts((index + 1) * 100_000 + place, number=1, num_tokens=num_tokens)
        is_left = chance.random() < CANCELLED_SHARE
        max_tokens = chance.randrange(1, 24)
        body = completion_body(server, prompt, max_tokens=max_tokens, **_settings(chance))
        path = "completions"
        if chance.random() < 0.4:
            path = "chat/completions"
            body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
        if chance.random() < 0.4:
            body["stream"] = False
            del body["stream_options"]
        if chance.random() < 0.2:
            key, value = ("logprobs", 3) if path == "completions" else ("logprobs", True)
            body[key] = value
        num_pieces = chance.randrange(3) if is_left else None
        yield Asked(path=path, body=body, num_pieces=num_pieces)


def _settings(chance: random.Random) -> dict[str, Any]:
    choices: list[dict[str, Any]] = [
        {},
        {"temperature": 0.7, "top_p": 0.9, "seed": chance.randrange(2**32)},
        {"temperature": 1.0, "top_k": 40, "min_p": 0.05},
        {"presence_penalty": 0.5, "frequency_penalty": 0.5},
        {"repetition_penalty": 1.1, "logit_bias": {"100": -5}},
        {"n": 3, "temperature": 0.8},
        {"stop": ["the", "\n\n"]},
    ]
    return chance.choice(choices)


async def _send(server: Running, requests: list[Asked]) -> None:
    """A dozen on their way at a time. Raises where one that stays fails."""
    waiting = iter(requests)

    async def client() -> None:
        for request in waiting:
            await _ask(server, request)

    await asyncio.gather(*(client() for _ in range(NUM_AT_ONCE)))


async def _ask(server: Running, request: Asked) -> None:
    exchange = await begin(server, request.body, path=request.path)
    if request.num_pieces is not None:
        await exchange.wait_for_pieces(request.num_pieces)
        exchange.leave()
        return
    reply = await exchange.reply(ROUND_TIMEOUT_S)
    if reply.error is not None:
        raise MeasurementFailed(f"{reply.error} {reply.detail} for {request.body}")
