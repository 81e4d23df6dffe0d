"""From one model to another where one at a time is kept, beside a load with none in memory.

    none loaded ──► answer of A  (plain)  ──► at once: answer of B  (switch)

Both are the same model under two names, which swap parts from run to run, so that both load the
same bytes, out of the system's file cache. ``--keep-alive 0`` has the first one go when its answer
has ended, and the request for the second one comes with that end: it waits for all that an unload
takes, which is what it would wait for where memory has room for one. A memory limit would not do
as well: of a small model's size, what Python holds varies by as much.

Each answer is one token after a prompt of a few, none of them in the prompt cache.
"""

from __future__ import annotations

import time

from measuring.failure import MeasurementFailed
from measuring.server import Running
from measuring.stats import settled
from measuring.stream import ask_all, completion_body

from rows.bench import DEFAULT_STRATEGY, ROUND_TIMEOUT_S, Bench
from rows.figure import Figure, RowResult, at_most, median, quotients

PROMPT_TOKENS = 8
UNLOAD_S = 30.0  # it takes far less


async def measure(bench: Bench) -> RowResult:
    """Round 0 does not count: what the first load of all imports and compiles is in it."""
    plain_s: list[float] = []
    switch_s: list[float] = []
    async with bench.ours_with_twins(flags=("--keep-alive", "0")) as (server, names):
        for index in range(bench.sizes.num_runs + 1):
            first, second = names if index % 2 else reversed(names)
            prompts = bench.prompts(index * 1000, number=2, num_tokens=PROMPT_TOKENS)
            await _none_loaded(server)
            taken_s = [
                await _answer_s(server, name, prompt)
                for name, prompt in zip((first, second), prompts, strict=True)
            ]
            if index > 0:
                plain_s.append(taken_s[0])
                switch_s.append(taken_s[1])
    figure = Figure(
        what="switch from one model to another ÷ load with none in memory, with one token",
        target=bench.target_if_real(at_most(1.1)),
        runs=quotients(switch_s, plain_s),
        detail=f"{median(switch_s):.2f} and {median(plain_s):.2f} s",
    )
    return RowResult(
        row="switch",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=[figure],
        raw={"plain_s": plain_s, "switch_s": switch_s},
    )


async def _none_loaded(server: Running) -> None:
    deadline_s = time.monotonic() + UNLOAD_S
    while (await settled(server)).models:
        if time.monotonic() > deadline_s:
            raise MeasurementFailed(f"{server.name} keeps a model that nobody uses")


async def _answer_s(server: Running, model: str, prompt: str) -> float:
    """To its end, since the text of one token may be empty."""
    body = completion_body(server, prompt, max_tokens=1, model=model, cache=False)
    (reply,) = await ask_all(server, [body], timeout_s=ROUND_TIMEOUT_S)
    return reply.latency_s
