"""How fast answers are written while the store of prefixes is full, beside one that is off.

Full means that every prompt that comes puts another one out. The store is a small one, so that it
gets full in little time. What is timed begins with an answer's first token, when its prompt has
been put away, and ends with its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from measuring.failure import MeasurementFailed
from measuring.server import Running
from measuring.stats import settled
from measuring.stream import ask_all, completion_body
from measuring.turns import Contender, take_turns

from rows.bench import ANSWER_TOKENS, DEFAULT_STRATEGY, ROUND_TIMEOUT_S, Bench
from rows.figure import Figure, RowResult, at_least, median, quotients

FULL, OFF = "full", "off"
FILLING_AT_ONCE = 8
# Two rounds' prompts would not be enough to put anything out.
MOST_FILLS = 4


async def measure(bench: Bench) -> RowResult:
    sizes = bench.sizes
    async with AsyncExitStack() as stack:
        limit_bytes = int(sizes.full_store_tokens * bench.in_process.cache_bytes_per_token())
        servers = {
            name: await stack.enter_async_context(bench.ours(flags=("--cache-memory", str(size))))
            for name, size in ((FULL, limit_bytes), (OFF, 0))
        }
        await _fill(bench, servers[FULL])
        rounds = await take_turns(
            {name: _contender(bench, server) for name, server in servers.items()},
            lambda index: bench.prompts(index, number=1, num_tokens=sizes.prompt_tokens),
            num_rounds=sizes.num_runs,
        )
        stored = (await settled(servers[FULL])).prefix_cache
    speeds = ", ".join(f"{name} {median(runs):.1f}" for name, runs in rounds.items())
    figure = Figure(
        what="decode speed of a stream, the store full ÷ off",
        target=bench.target_if_real(at_least(0.97)),
        runs=quotients(rounds[FULL], rounds[OFF]),
        detail=f"tokens/s: {speeds}; {stored.entries} pieces, {stored.evictions} put out",
    )
    return RowResult(
        row="decode-full-store",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=[figure],
        raw={"tokens_per_s": rounds},
    )


async def _fill(bench: Bench, server: Running) -> None:
    """Until something was put out."""
    sizes = bench.sizes
    num_prompts = sizes.full_store_tokens // sizes.prompt_tokens
    for fill in range(1, MOST_FILLS + 1):
        prompts = bench.prompts(fill * 100_000, number=num_prompts, num_tokens=sizes.prompt_tokens)
        for place in range(0, num_prompts, FILLING_AT_ONCE):
            bodies = [
                completion_body(server, prompt, max_tokens=ANSWER_TOKENS)
                for prompt in prompts[place : place + FILLING_AT_ONCE]
            ]
            await ask_all(server, bodies, timeout_s=ROUND_TIMEOUT_S)
        if (await settled(server)).prefix_cache.evictions:
            return
    raise MeasurementFailed(f"{server.name}: the store does not get full")


def _contender(bench: Bench, server: Running) -> Contender[float]:
    async def tokens_per_s(prompts: Sequence[str]) -> float:
        body = completion_body(server, prompts[0], max_tokens=bench.sizes.answer_tokens)
        (reply,) = await ask_all(server, [body], timeout_s=ROUND_TIMEOUT_S)
        first_s, last_s = reply.chunk_times_s[0], reply.ended_s
        return (reply.completion_tokens - 1) / (last_s - first_s)

    return tokens_per_s
