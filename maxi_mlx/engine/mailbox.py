"""What one request receives from the device thread: news, in order, on the event loop.

The device thread posts a whole step's news for all requests in one wake-up of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from maxi_mlx.core.errors import EngineFailed, MaxiError
from maxi_mlx.engine.speech.news import WindowNews

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Log-probabilities of one generated token and of the likeliest ones, best first."""

    logprob: float
    top_ids: tuple[int, ...]
    top_logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PrefillNews:
    """So many tokens of an answer's prompt are read; the first such news says that it has begun.
    News leaves at the end of a turn, which may read the whole prompt: so it says when it was."""

    choice: int
    processed_tokens: int
    total_tokens: int
    at_s: float = field(default_factory=time.monotonic)


# ``complete``: the answer's grammar has come to its end, with this token in the text.
TokenEnd = Literal["end_token", "complete", "length"]


@dataclass(frozen=True, slots=True)
class TokenNews:
    """One more token of an answer. ``end`` says that it is the last, and why."""

    choice: int
    token_id: int
    end: TokenEnd | None
    scores: TokenScores | None


@dataclass(frozen=True, slots=True, eq=False)
class RowsNews:
    """All vectors or scores that a request asked for: a row for each input."""

    rows: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FaultNews:
    """The request can't go on."""

    error: MaxiError


News = PrefillNews | TokenNews | RowsNews | WindowNews | FaultNews


class Mailbox:
    """Lives on the event loop; only `deliver` brings news, by ``call_soon_threadsafe``."""

    def __init__(self) -> None:
        self._news: deque[News] = deque()
        self._arrived = asyncio.Event()

    async def take(self) -> list[News]:
        """Waits for news and takes all there is."""
        await self._arrived.wait()
        self._arrived.clear()
        news = list(self._news)
        self._news.clear()
        return news

    def lose(self, error: MaxiError) -> None:
        """News was lost; what is taken next is that the request can't go on."""
        self._news.append(FaultNews(error))
        self._arrived.set()

    def put(self, news: News) -> None:
        self._news.append(news)
        self._arrived.set()


Outbox = list[tuple[Mailbox, News]]


def deliver(outbox: Outbox) -> None:
    """Runs on the loop: hands a turn's news out. What one mailbox does not take costs its own
    request, not those behind it."""
    for mailbox, news in outbox:
        try:
            mailbox.put(news)
        except Exception as error:
            logger.exception("news could not be delivered")
            mailbox.lose(EngineFailed(f"The answer could not be delivered: {error}"))
