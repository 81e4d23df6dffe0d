"""Sends one request to an OpenAI-compatible server and notes when each piece of the answer came.

Owns no session and no schedule: `prompts.py` decides what is sent, `level.py` when.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
import msgspec

from measuring.wire import Answer, event_data, read_answer

MAX_DETAIL = 500

Endpoint = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the requests go, and what is the same in all of them."""

    url: str  # up to and with /v1
    model: str
    endpoint: Endpoint
    max_tokens: int
    streams: bool
    timeout_s: float
    api_key: str | None = None

    @property
    def address(self) -> str:
        path = "/chat/completions" if self.endpoint == "chat" else "/completions"
        return self.url.rstrip("/") + path

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}

    def body(self, prompt: str) -> Mapping[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "stream": self.streams,
        }
        if self.endpoint == "chat":
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        if self.streams:
            body["stream_options"] = {"include_usage": True}
        return body


@dataclass(slots=True, kw_only=True)
class Reply:
    """What one request came to. Times are of time.perf_counter(); ``chunk_times_s`` are of those
    events that brought text. ``error`` is a short kind, the same for errors of one cause."""

    begun_s: float
    ended_s: float = 0.0
    chunk_times_s: list[float] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int = 0  # of the prompt, as the server says
    usage_tokens: int | None = None
    is_finished: bool = False
    error: str | None = None
    detail: str = ""  # what the server said of the error

    @property
    def completion_tokens(self) -> int:
        return len(self.chunk_times_s) if self.usage_tokens is None else self.usage_tokens

    @property
    def latency_s(self) -> float:
        return self.ended_s - self.begun_s

    @property
    def first_token_s(self) -> float | None:
        return self.chunk_times_s[0] - self.begun_s if self.chunk_times_s else None

    @property
    def gaps_s(self) -> list[float]:
        times = self.chunk_times_s
        return [after - before for before, after in itertools.pairwise(times)]

    def note(self, answer: Answer, now_s: float) -> None:
        if answer.error is not None:
            self.error = "error in the answer"
            self.detail = str(answer.error)[:MAX_DETAIL]
        if answer.has_text:
            self.chunk_times_s.append(now_s)
        if answer.usage is not None:
            self.prompt_tokens = answer.usage.prompt_tokens
            self.cached_tokens = answer.usage.cached_tokens
            self.usage_tokens = answer.usage.completion_tokens
        self.is_finished = self.is_finished or answer.is_finished


async def ask(session: aiohttp.ClientSession, target: Target, prompt: str) -> Reply:
    """Never raises for what the server or the network does: that is the reply's ``error``."""
    reply = Reply(begun_s=time.perf_counter())
    try:
        async with asyncio.timeout(target.timeout_s):
            await _exchange(session, target, prompt, reply=reply)
    except TimeoutError:
        reply.error = "timeout"
    except aiohttp.ClientError as error:
        reply.error = f"connection: {type(error).__name__}"
        reply.detail = str(error)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        reply.error = "not an answer"
    reply.ended_s = time.perf_counter()
    return reply


async def _exchange(
    session: aiohttp.ClientSession, target: Target, prompt: str, *, reply: Reply
) -> None:
    async with session.post(
        target.address, json=target.body(prompt), headers=target.headers
    ) as response:
        if response.status != 200:
            reply.error = f"HTTP {response.status}"
            reply.detail = (await response.text(errors="replace"))[:MAX_DETAIL]
            return
        if target.streams:
            await _read_stream(response, reply)
        else:
            reply.note(read_answer(await response.read()), time.perf_counter())
    if reply.error is None and not reply.is_finished:
        reply.error = "ended without a finish_reason"


async def _read_stream(response: aiohttp.ClientResponse, reply: Reply) -> None:
    async for line in response.content:
        data = event_data(line)
        if data == b"[DONE]":
            return
        if data:
            reply.note(read_answer(data), time.perf_counter())
    if reply.error is None:
        reply.error = "ended without [DONE]"
