"""Runs one level of concurrency: so many clients, each with one request on its way at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import aiohttp

from measuring.client import Reply, Target, ask

MAX_LINE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Level:
    """What came of it; ``replies`` in the order in which they ended."""

    concurrency: int
    replies: list[Reply]
    wall_s: float


async def run_level(
    target: Target, prompts: Sequence[str], *, concurrency: int, max_time_s: float
) -> Level:
    """Ends when all prompts are answered or ``max_time_s`` is over: a request that is on its way
    then counts as an error, one that was not sent does not count."""
    waiting = iter(prompts)
    replies: list[Reply] = []
    began = time.perf_counter()
    async with _session() as session:
        clients = [
            asyncio.create_task(_client(session, target, waiting, replies=replies))
            for _ in range(min(concurrency, len(prompts)))
        ]
        _, late = await asyncio.wait(clients, timeout=max_time_s)
        for client in late:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    wall = time.perf_counter() - began
    replies += [Reply(begun_s=began, ended_s=began + wall, error="out of time") for _ in late]
    for client in clients:
        if not client.cancelled() and (fault := client.exception()) is not None:
            raise fault
    return Level(concurrency, replies, wall)


async def ask_once(target: Target, prompt: str) -> Reply:
    """One request that is not part of a level: it loads the model, and shows what is wrong."""
    async with _session() as session:
        return await ask(session, target, prompt)


def _session() -> aiohttp.ClientSession:
    """No limit but the number of clients; each request has its own timeout."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=MAX_LINE_BYTES // 2,  # aiohttp takes lines up to twice that
    )


async def _client(
    session: aiohttp.ClientSession,
    target: Target,
    waiting: Iterator[str],
    *,
    replies: list[Reply],
) -> None:
    for prompt in waiting:
        replies.append(await ask(session, target, prompt))
