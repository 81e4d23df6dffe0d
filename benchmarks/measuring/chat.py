"""One turn of a chat after the other, for what is told of them: takes no time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aiohttp
import msgspec

from measuring.failure import MeasurementFailed
from measuring.server import Running
from measuring.wire import read_answer

TIMEOUT_S = 600.0

Messages = Sequence[Mapping[str, str]]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, and what it took. ``prompt_tokens`` are all of the chat's so far, of which the
    server knew ``cached_tokens``."""

    text: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


async def ask_turn(server: Running, messages: Messages, *, max_tokens: int) -> Turn:
    body = {
        "model": server.model,
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0.0,
    }
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{server.url}/chat/completions", json=body) as response,
        ):
            data = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise MeasurementFailed(f"{server.name}: {error!r} in a chat") from error
    if response.status != 200:
        raise MeasurementFailed(f"{server.name}: HTTP {response.status} {data[:500]!r} in a chat")
    answer = read_answer(data)
    message, usage = answer.choices[0].message, answer.usage
    if message is None or usage is None:
        raise MeasurementFailed(f"{server.name}: no message or no usage in {data[:500]!r}")
    return Turn(
        text=message.content or "",
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
    )
