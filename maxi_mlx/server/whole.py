"""Sends an answer in one piece, once all of it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

from maxi_mlx.core.events import Failed
from maxi_mlx.server.feed import Feed


class WholeAnswer(Protocol):
    """Gathers events into a body of one wire format."""

    def feed(self, event: Any) -> None: ...

    def body(self) -> bytes: ...


async def send_whole(
    feed: Feed[Any],
    make_answer: Callable[..., WholeAnswer],
    *,
    content_type: str = "application/json",
) -> web.Response:
    """Raises the error of an answer that failed, however much of it was there."""
    events: list[Any] = []
    while not feed.has_ended:
        events += await feed.take()
    if isinstance(last := events[-1], Failed):
        raise last.error
    answer = make_answer(model=feed.model)
    for event in events:
        answer.feed(event)
    charset = "utf-8" if content_type.startswith("text/") else None
    return web.Response(body=answer.body(), content_type=content_type, charset=charset)
