"""Several choices of one prompt: whether the prompt is read once for all of them."""

from __future__ import annotations

from measuring.server import Running
from measuring.stats import settled
from measuring.stream import ask_all, completion_body

from rows.bench import DEFAULT_STRATEGY, ROUND_TIMEOUT_S, Bench
from rows.figure import Figure, RowResult, at_most, median, quotients

NUM_CHOICES = 4
PROMPT_TOKENS = 200
ANSWER_TOKENS = 8


async def measure(bench: Bench) -> RowResult:
    """Of other prompts than any before, and past the prompt cache: of two prompts that begin with
    the same digit it would have a token."""
    tokens: dict[int, list[int]] = {1: [], NUM_CHOICES: []}
    async with bench.ours() as server:
        for index in range(bench.sizes.num_runs):
            texts = bench.prompts(index * 1000, number=2, num_tokens=PROMPT_TOKENS)
            for n, prompt in zip(tokens, texts, strict=True):
                tokens[n].append(await _tokens_read(server, prompt, n=n))
    one, several = tokens.values()
    figure = Figure(
        what=f"{NUM_CHOICES} choices ÷ 1, prompt tokens computed",
        target=at_most(1.0),
        runs=quotients(several, one),
        detail=f"{median(several):.0f} and {median(one):.0f} tokens",
    )
    return RowResult(
        row="choices",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=[figure],
        raw={"tokens": tokens},
    )


async def _tokens_read(server: Running, prompt: str, *, n: int) -> int:
    before = await settled(server)
    fields = {"n": n, "temperature": 0.7, "cache": False}
    body = completion_body(server, prompt, max_tokens=ANSWER_TOKENS, **fields)
    await ask_all(server, [body], timeout_s=ROUND_TIMEOUT_S)
    return (await settled(server)).prefill_tokens - before.prefill_tokens
