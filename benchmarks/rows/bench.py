"""What a row works with: the model, in-process mlx-lm on it, servers to start, prompts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from measuring.client import Reply
from measuring.failure import MeasurementFailed
from measuring.in_process import InProcess
from measuring.models import BenchModel, twins
from measuring.process import cpu_seconds
from measuring.prompts import WORDS_PER_TOKEN, make_prompt
from measuring.server import (
    Running,
    running_mlx_lm_server,
    running_server,
    running_with_none_loaded,
)
from measuring.speed import Speed
from measuring.stream import ask_all, begin_all, completion_body, replies_of
from measuring.turns import Contender

from rows.figure import Target
from rows.sizes import Sizes

ROUND_TIMEOUT_S = 1800.0
# So many pieces of an answer have come once it is sure to write: its head may be one by itself.
PIECES_OF_A_STREAM = 3
DEFAULT_STRATEGY = "balanced"
OWN_TOKENS = 20  # of a prompt whose beginning is known
ANSWER_TOKENS = 4  # where nothing but the first counts

OURS = "maxi-mlx"
THEIRS = "mlx_lm.server"
IN_PROCESS = "in-process"
BARE = "bare loop"


@dataclass(frozen=True, slots=True)
class Bench:
    """One model's. Every row starts servers of its own, so that none is measured on what another
    left behind."""

    model: BenchModel
    sizes: Sizes
    in_process: InProcess

    def target(self, *, tiny: float, real: float) -> float:
        return tiny if self.model.is_tiny else real

    def target_if_real(self, target: Target) -> Target | None:
        """For a share of the model's own time, which a tiny one hardly has."""
        return None if self.model.is_tiny else target

    @asynccontextmanager
    async def ours(
        self,
        strategy: str = DEFAULT_STRATEGY,
        *,
        flags: Sequence[str] = (),
        cache_dir: Path | None = None,
    ) -> AsyncIterator[Running]:
        """``cache_dir``: prompts that an earlier server kept; otherwise it knows none."""
        flags = ("--strategy", strategy, *flags)
        async with running_server(self.model.folder, flags=flags, cache_dir=cache_dir) as server:
            yield server

    @asynccontextmanager
    async def ours_with_twins(
        self, *, flags: Sequence[str] = ()
    ) -> AsyncIterator[tuple[Running, tuple[str, str]]]:
        """A server with the model under two names, neither of them loaded."""
        with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as root:
            names = twins(self.model, Path(root))
            flags = ("--strategy", DEFAULT_STRATEGY, *flags)
            async with running_with_none_loaded(Path(root), flags=flags) as server:
                yield server, names

    @asynccontextmanager
    async def both_servers(
        self, strategy: str = DEFAULT_STRATEGY, *, their_flags: Sequence[str] = ()
    ) -> AsyncIterator[list[Running]]:
        """Ours and mlx-lm's."""
        async with AsyncExitStack() as stack:
            ours = await stack.enter_async_context(self.ours(strategy))
            theirs = running_mlx_lm_server(self.model.folder, flags=their_flags)
            yield [ours, await stack.enter_async_context(theirs)]

    def prompts(self, first: int, *, number: int, num_tokens: int) -> list[str]:
        """Prompts of exactly so many tokens; ``first`` and those after it are never used twice."""
        return [self._prompt(first + place, num_tokens) for place in range(number)]

    def prompts_alike(
        self, first: int, *, number: int, num_shared: int, num_own: int = OWN_TOKENS
    ) -> list[str]:
        """Prompts that begin with the same ``num_shared`` tokens and go on with ``num_own`` of
        their own, give or take one where the two meet. Uses ``first`` and as many after it."""
        beginning, *_ = self.prompts(first, number=1, num_tokens=num_shared)
        ends = self.prompts(first + 1, number=number, num_tokens=num_own)
        return [f"{beginning} {end}" for end in ends]

    def _prompt(self, index: int, num_tokens: int) -> str:
        # A tokenizer that cuts words into more pieces needs fewer of them.
        num_words_for = int(num_tokens * 1.2 / WORDS_PER_TOKEN) + 20
        text = make_prompt(index, num_tokens=num_words_for, seed=0)
        return self.in_process.cut(text, num_tokens)


def in_process_rounds(bench: Bench, *, max_tokens: int, is_bare: bool = False) -> Contender[Speed]:
    async def measure_round(prompts: Sequence[str]) -> Speed:
        return await bench.in_process.measure(prompts, max_tokens=max_tokens, is_bare=is_bare)

    return measure_round


def server_rounds(
    server: Running, *, max_tokens: int, fields: Sequence[Mapping[str, Any]] | None = None
) -> Contender[Speed]:
    """All prompts at once, each with its own ``fields``."""

    async def measure_round(prompts: Sequence[str]) -> Speed:
        bodies = [
            completion_body(server, prompt, max_tokens=max_tokens, **more)
            for prompt, more in zip(prompts, fields or [{}] * len(prompts), strict=True)
        ]
        exchanges = await begin_all(server, bodies)
        for exchange in exchanges:
            await exchange.wait_for_pieces(PIECES_OF_A_STREAM)
        all_begun_s, cpu_s = time.perf_counter(), cpu_seconds(server.pid)
        replies = await replies_of(server, exchanges, timeout_s=ROUND_TIMEOUT_S)
        return Speed(
            num_tokens=sum(reply.completion_tokens for reply in replies),
            seconds=max(r.ended_s for r in replies) - min(r.begun_s for r in replies),
            first_token_s=tuple(
                first for reply in replies if (first := reply.first_token_s) is not None
            ),
            cpu_s=cpu_seconds(server.pid) - cpu_s,
            num_cpu_tokens=sum(_tokens_after(all_begun_s, reply) for reply in replies),
        )

    return measure_round


def _tokens_after(now_s: float, reply: Reply) -> int:
    """By its events; a few of an answer's tokens have none, such as halves of a character."""
    num_events = sum(at_s > now_s for at_s in reply.chunk_times_s)
    return round(reply.completion_tokens * num_events / len(reply.chunk_times_s))


def tokens_per_s(speeds: Sequence[Speed]) -> list[float]:
    return [speed.tokens_per_s for speed in speeds]


class FirstToken(msgspec.Struct, frozen=True):
    """How long a prompt's first token took, and how much of the prompt the server knew."""

    seconds: float
    prompt_tokens: int
    cached_tokens: int


async def first_token(server: Running, prompt: str) -> FirstToken:
    body = completion_body(server, prompt, max_tokens=ANSWER_TOKENS)
    (reply,) = await ask_all(server, [body], timeout_s=ROUND_TIMEOUT_S)
    if reply.first_token_s is None:
        raise MeasurementFailed(f"{server.name}: no text came for a prompt")
    return FirstToken(reply.first_token_s, reply.prompt_tokens or 0, reply.cached_tokens)
