"""What a running stream feels of a long prompt that arrives, and what the prompt feels of it.

prompt alone:   │──── reading ────│
stream:         ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪   ▪   ▪   ▪   ▪   ▪ ▪ ▪ ▪
prompt beside:                  │──────── reading ───────│
                └── its median ─┘ └── its longest gap ───┘
"""

from __future__ import annotations

import asyncio

from measuring.failure import MeasurementFailed
from measuring.server import Running
from measuring.stream import ask_all, begin, completion_body

from rows.bench import DEFAULT_STRATEGY, ROUND_TIMEOUT_S, Bench
from rows.beside import FIRST_PIECES, STREAM_TOKENS, Beside
from rows.figure import Figure, RowResult, at_most, median

PROMPT_ANSWER_TOKENS = 4


class Stall(Beside, frozen=True, kw_only=True):
    """One run."""

    prompt_alone_s: float  # to its first token
    prompt_beside_s: float


async def measure(bench: Bench) -> RowResult:
    sizes = bench.sizes
    async with bench.ours() as server:
        await _run(bench, server, 0, num_tokens=sizes.prompt_tokens)  # does not count
        stalls = [
            await _run(bench, server, index, num_tokens=sizes.long_prompt_tokens)
            for index in range(1, sizes.num_runs + 1)
        ]
    gap_ms = median([stall.median_gap_s * 1000 for stall in stalls])
    longest_ms = median([stall.longest_gap_s * 1000 for stall in stalls])
    noise = median([stall.longest_before_s / stall.median_gap_s for stall in stalls])
    alone_s = median([stall.prompt_alone_s for stall in stalls])
    beside_s = median([stall.prompt_beside_s for stall in stalls])
    what = f"a {sizes.long_prompt_tokens:,}-token prompt"
    figures = [
        Figure(
            what=f"longest gap of a stream while {what} arrives ÷ its median",
            target=at_most(4.0),
            runs=[stall.longest_gap_s / stall.median_gap_s for stall in stalls],
            detail=f"{longest_ms:.1f} and {gap_ms:.1f} ms; with no prompt {noise:.1f}",
        ),
        Figure(
            what=f"time to the first token of {what}, beside ÷ alone",
            target=at_most(1.5),
            runs=[stall.prompt_beside_s / stall.prompt_alone_s for stall in stalls],
            detail=f"{beside_s:.2f} and {alone_s:.2f} s",
        ),
    ]
    return RowResult(
        row="stall",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=figures,
        raw={"stalls": stalls},
    )


async def _run(bench: Bench, server: Running, index: int, *, num_tokens: int) -> Stall:
    """Which of the two comes first, alone or beside, changes with every run."""
    alone, beside = bench.prompts(index * 1000, number=2, num_tokens=num_tokens)
    (prompt,) = bench.prompts(index * 1000 + 2, number=1, num_tokens=bench.sizes.prompt_tokens)
    if index % 2:
        alone_s, _ = await _ask(server, alone)
    stream = await begin(server, completion_body(server, prompt, max_tokens=STREAM_TOKENS))
    await stream.wait_for_pieces(FIRST_PIECES + bench.sizes.num_gaps_alone)
    beside_s, (sent_s, ended_s) = await _ask(server, beside)
    await stream.wait_for_pieces(stream.num_pieces + FIRST_PIECES)
    if stream.is_over:
        raise MeasurementFailed(f"{server.name}: the stream ended before the prompt was read")
    stream.leave()
    if not index % 2:
        await asyncio.sleep(0.5)  # until the stream has left
        alone_s, _ = await _ask(server, alone)
    return Stall(
        times_s=stream.reply_so_far().chunk_times_s[FIRST_PIECES:],
        sent_s=sent_s,
        ended_s=ended_s,
        prompt_alone_s=alone_s,
        prompt_beside_s=beside_s,
    )


async def _ask(server: Running, prompt: str) -> tuple[float, tuple[float, float]]:
    """The time to its first token, and when it was sent and answered."""
    body = completion_body(server, prompt, max_tokens=PROMPT_ANSWER_TOKENS)
    (reply,) = await ask_all(server, [body], timeout_s=ROUND_TIMEOUT_S)
    if reply.first_token_s is None:
        raise MeasurementFailed(f"{server.name}: no text came for a prompt")
    return reply.first_token_s, (reply.begun_s, reply.ended_s)
