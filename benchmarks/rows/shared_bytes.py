"""What 16 conversations over one system prompt take, beside the least that they could.

The least is one system prompt and 16 tails, as many bytes a token as a row's cache takes. Ours is
counted twice: by what the store says that it holds, and, as mlx_lm.server's, by what MLX's active
memory has grown by. mlx_lm.server may keep as many conversations as there are; by default it keeps
10.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from measuring.chat import Messages, ask_turn
from measuring.server import Running
from measuring.stats import settled

from rows.bench import DEFAULT_STRATEGY, OURS, THEIRS, Bench
from rows.figure import Figure, RowResult, at_most, median, quotients

NUM_CONVERSATIONS = 16
TAIL_TOKENS = 32
ANSWER_TOKENS = 16
THEIR_FLAGS = ("--prompt-cache-size", "1000")


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What one run's conversations have added. ``num_tokens`` are different ones: what all begin
    with counts once."""

    num_tokens: int
    num_bytes: int  # as the server says; 0 where it says nothing
    active_bytes: int


async def measure(bench: Bench) -> RowResult:
    stored: dict[str, list[Stored]] = {OURS: [], THEIRS: []}
    async with bench.both_servers(their_flags=THEIR_FLAGS) as servers:
        for index in range(bench.sizes.num_memory_runs):
            conversations = _conversations(bench, index)
            for name, server in zip(stored, servers, strict=True):
                stored[name].append(await _store(bench, server, conversations))
    token_bytes = bench.in_process.cache_bytes_per_token()
    least = {
        name: [result.num_tokens * token_bytes for result in results]
        for name, results in stored.items()
    }
    active = {name: [r.active_bytes for r in results] for name, results in stored.items()}
    counted = [result.num_bytes for result in stored[OURS]]
    figures = [
        Figure(
            what=f"{NUM_CONVERSATIONS} conversations over a {bench.sizes.known_tokens:,}-token "
            "system prompt, bytes stored ÷ least",
            target=at_most(1.15),
            runs=quotients(counted, least[OURS]),
            detail=_described(counted, least[OURS]),
        ),
        _of_memory("  the same by growth of memory", active[OURS], least[OURS]),
        _of_memory("  mlx_lm.server, by growth of memory", active[THEIRS], least[THEIRS]),
    ]
    return RowResult(
        row="shared-bytes",
        model=bench.model.name,
        strategy=DEFAULT_STRATEGY,
        figures=figures,
        raw={"stored": stored, "token_bytes": token_bytes},
    )


def _conversations(bench: Bench, index: int) -> list[Messages]:
    first = (index + 1) * 1000
    (system,) = bench.prompts(first, number=1, num_tokens=bench.sizes.known_tokens)
    asked = bench.prompts(first + 1, number=NUM_CONVERSATIONS, num_tokens=TAIL_TOKENS)
    return [
        [{"role": "system", "content": system}, {"role": "user", "content": text}] for text in asked
    ]


async def _store(bench: Bench, server: Running, conversations: Sequence[Messages]) -> Stored:
    prompts = [bench.in_process.chat_tokens(messages) for messages in conversations]
    before = await settled(server)
    turns = [await ask_turn(server, m, max_tokens=ANSWER_TOKENS) for m in conversations]
    after = await settled(server)
    # An answer's last token is in no cache.
    lengths = [turn.prompt_tokens + turn.completion_tokens - 1 for turn in turns]
    num_shared = shared_tokens(prompts)
    return Stored(
        num_tokens=num_shared + sum(length - num_shared for length in lengths),
        num_bytes=after.prefix_cache.bytes - before.prefix_cache.bytes,
        active_bytes=after.memory.active_bytes - before.memory.active_bytes,
    )


def shared_tokens(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all of them begin with."""
    number = 0
    for column in zip(*prompts, strict=False):
        if len(set(column)) > 1:
            break
        number += 1
    return number


def _of_memory(what: str, active: Sequence[int], least: Sequence[float]) -> Figure:
    return Figure(
        what=what, target=None, runs=quotients(active, least), detail=_described(active, least)
    )


def _described(taken: Sequence[float], least: Sequence[float]) -> str:
    return f"{median(taken) / 2**20:.2f} and {median(least) / 2**20:.2f} MiB"
