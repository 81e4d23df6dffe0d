"""One request on the event loop, from its rows' news to the events its client sees.

Mailbox ─► AnswerText (one an answer) ─► TextDelta, ToolCallStart, Finished … Completed
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    FinishReason,
    PrefillProgress,
    Timings,
    TokenLogprob,
    TopLogprob,
    Usage,
)
from maxi_mlx.engine.mailbox import FaultNews, Mailbox, PrefillNews, TokenNews, TokenScores
from maxi_mlx.engine.row import Row
from maxi_mlx.text.answer import AnswerText
from maxi_mlx.text.vocabulary import Vocabulary


@dataclass(slots=True)
class _Clock:
    """When things happened, in seconds of the monotonic clock; 0.0 is not yet."""

    arrived_s: float
    lent_s: float
    began_s: float = 0.0
    first_token_s: float = 0.0

    def timings(self) -> Timings:
        now_s = time.monotonic()
        began_s = self.began_s or now_s
        first_token_s = self.first_token_s or now_s
        return Timings(
            queue_s=began_s - self.arrived_s,
            prefill_s=first_token_s - began_s,
            first_token_s=first_token_s - self.arrived_s,
            decode_s=now_s - first_token_s,
            load_s=self.lent_s - self.arrived_s,
        )


@dataclass(slots=True)
class _Answer:
    """One choice in the making."""

    row: Row
    text: AnswerText
    num_tokens: int = 0
    done: bool = False


@dataclass(slots=True, kw_only=True)
class Generation:
    """Reads a request's mailbox until all its answers are done."""

    mailbox: Mailbox
    vocabulary: Vocabulary
    answers: list[_Answer] = field(default_factory=list)
    prompt_tokens: int
    answers_per_prompt: int
    arrived_s: float
    lent_s: float  # when its model was there
    on_begin: Callable[[], None]
    cached_tokens: dict[int, int] = field(default_factory=dict)  # by prompt

    def add(self, row: Row, text: AnswerText) -> None:
        self.answers.append(_Answer(row, text))

    async def events(self) -> AsyncGenerator[Event, None]:
        """Every event after `Started`. The caller cancels the rows when it stops reading."""
        clock = _Clock(self.arrived_s, self.lent_s)
        num_open = len(self.answers)
        while num_open:
            for news in await self.mailbox.take():
                match news:
                    case FaultNews(error):
                        yield Failed(error)
                        return
                    case PrefillNews(choice, processed, total, at_s):
                        # What is there before the first slice came out of the prefix cache.
                        self.cached_tokens.setdefault(choice // self.answers_per_prompt, processed)
                        if not clock.began_s:
                            clock.began_s = at_s
                            self.on_begin()
                        yield PrefillProgress(processed, total)
                    case TokenNews():
                        clock.first_token_s = clock.first_token_s or time.monotonic()
                        for event in self._token(news):
                            num_open -= isinstance(event, Finished)
                            yield event
        completion_tokens = sum(answer.num_tokens for answer in self.answers)
        usage = Usage(
            self.prompt_tokens,
            completion_tokens,
            cached_tokens=sum(self.cached_tokens.values()),
            reasoning_tokens=sum(answer.text.num_reasoning_tokens for answer in self.answers),
        )
        yield Completed(usage, clock.timings())

    def _token(self, news: TokenNews) -> list[Event]:
        answer = self.answers[news.choice]
        if answer.done:
            return []  # drawn before the device knew that a stop string had come
        answer.num_tokens += 1
        events: list[Event] = []
        if news.token_id not in answer.row.end_ids:
            events += answer.text.feed(news.token_id, self._logprob(news))
        if answer.text.stop_string is not None:
            answer.row.cancelled = True
            events.append(self._finish(answer, "stop"))
        elif news.end is not None:
            events += answer.text.finish(is_cut=news.end == "length")
            is_cut = news.end == "length" and not answer.text.ends_with_call
            events.append(self._finish(answer, "length" if is_cut else "stop"))
        return events

    def _finish(self, answer: _Answer, reason: FinishReason) -> Finished:
        answer.done = True
        stop_string = answer.text.stop_string
        # Text held back until the answer's end may complete a stop string.
        if stop_string is not None:
            reason = "stop"
        elif reason == "stop" and answer.text.num_tool_calls:
            reason = "tool_calls"
        return Finished(answer.row.choice, reason, stop_string, answer.num_tokens)

    def _logprob(self, news: TokenNews) -> TokenLogprob | None:
        scores: TokenScores | None = news.scores
        if scores is None:
            return None
        top = tuple(
            TopLogprob(token_id, *self._spelling(token_id), logprob)
            for token_id, logprob in zip(scores.top_ids, scores.top_logprobs, strict=True)
        )
        return TokenLogprob(news.token_id, *self._spelling(news.token_id), scores.logprob, top)

    def _spelling(self, token_id: int) -> tuple[str, bytes]:
        """A special token has a name, but adds no bytes to the text."""
        name = self.vocabulary.data(token_id).decode("utf-8", errors="replace")
        return name, self.vocabulary.visible(token_id)
