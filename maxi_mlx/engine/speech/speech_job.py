"""One recording on its way through the model, window by window. Lives on the device thread."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from maxi_mlx.core.transcription import Segment, Task, Word
from maxi_mlx.engine.mailbox import Mailbox
from maxi_mlx.engine.speech.alignment import HeardWord, align
from maxi_mlx.engine.speech.features import FRAMES_PER_S
from maxi_mlx.engine.speech.loops import without_loop
from maxi_mlx.engine.speech.news import WindowNews
from maxi_mlx.engine.speech.recording import Recording
from maxi_mlx.engine.speech.segments import Span, cut
from maxi_mlx.engine.speech.speech_model import SpeechModel
from maxi_mlx.engine.speech.voice import next_voice, without_silence
from maxi_mlx.engine.speech.window import (
    Attempt,
    Steps,
    detect_language,
    encode,
    transcribe_window,
)

WINDOW_FRAMES = 3000
# Less than a tenth of a second at the end is no word.
_LEAST_FRAMES = 10
# Beyond this, text is drawn too freely to be a context for what follows.
_MAX_CONTEXT_TEMPERATURE = 0.5


@dataclass(slots=True, kw_only=True, eq=False)
class SpeechJob:
    """``context`` are the tokens written so far, as far as they help with what follows, and
    ``keywords`` stay in front of them."""

    mailbox: Mailbox
    request_id: str
    recording: Recording
    task: Task
    language: str | None
    temperatures: Sequence[float]
    wants_words: bool
    keywords: Sequence[int] = ()
    context: list[int] = field(default_factory=list)
    seek: int = 0
    num_segments: int = 0
    arrived_s: float = field(default_factory=time.monotonic)

    def steps(self, speech: SpeechModel) -> Generator[WindowNews | None, None, None]:
        """All of the work; None is a pause, and news ends a window."""
        recording = self.recording
        while (start := next_voice(recording.regions, self.seek)) is not None:
            self.seek = start
            num_frames = min(WINDOW_FRAMES, recording.num_frames - self.seek)
            if num_frames < _LEAST_FRAMES:
                break
            segments = yield from self._window(speech, num_frames)
            yield self._news(segments, is_last=False)
        yield self._news((), is_last=True)

    def _news(self, segments: Iterable[Segment], *, is_last: bool) -> WindowNews:
        frames = self.recording.num_frames if is_last else self.seek
        return WindowNews(tuple(segments), frames / FRAMES_PER_S, self.language, is_last)

    def _window(self, speech: SpeechModel, num_frames: int) -> Steps[list[Segment]]:
        seek = self.seek
        mel = self.recording.window(seek, num_frames=num_frames, length=WINDOW_FRAMES)
        encoded = yield from encode(speech, mx.array(mel))
        if self.language is None:
            self.language = detect_language(speech, encoded)
        tokenizer = speech.tokenizer(language=self.language, task=self.task)
        attempt = yield from transcribe_window(
            speech,
            encoded,
            tokenizer,
            context=self._context(speech),
            temperatures=self.temperatures,
            seed=seek,
        )
        if attempt.is_silence:
            self.seek += num_frames
            return []
        parts = cut(attempt.tokens, num_frames=num_frames, time_begin=tokenizer.timestamp_begin)
        self.seek += parts.num_frames
        spans = [span for span in parts.spans if span.end_s > span.start_s]
        if attempt.is_loop:
            spans = _without_loops(spans, tokenizer)
        words: list[HeardWord] = []
        if self.wants_words:
            text = [token for span in spans for token in _words_of(span, tokenizer)]
            voiced = self.recording.voiced[seek : seek + num_frames]
            words = yield from align(speech, encoded, tokenizer, text, voiced=voiced)
            yield
        segments = self._segments(spans, attempt, tokenizer, seek=seek, words=words)
        self._remember(spans, attempt)
        return segments

    def _context(self, speech: SpeechModel) -> list[int]:
        """What the model is told of the text before: half of what it can hold, at most."""
        room = speech.text_context // 2 - 1
        keywords = list(self.keywords)[: room // 2]
        latest = self.context[-(room - len(keywords)) :] if room > len(keywords) else []
        return keywords + latest

    def _remember(self, spans: Sequence[Span], attempt: Attempt) -> None:
        if attempt.temperature > _MAX_CONTEXT_TEMPERATURE or attempt.is_loop:
            self.context.clear()
        else:
            self.context += [token for span in spans for token in span.tokens]
            del self.context[:-WINDOW_FRAMES]

    def _segments(
        self,
        spans: Sequence[Span],
        attempt: Attempt,
        tokenizer: Any,
        *,
        seek: int,
        words: Sequence[HeardWord],
    ) -> list[Segment]:
        segments = []
        offset_s, duration_s = seek / FRAMES_PER_S, self.recording.duration_s
        voiced = self.recording.voiced
        waiting = list(words)
        for span in spans:
            tokens = _words_of(span, tokenizer)
            text = tokenizer.decode(tokens)
            own = _taken(waiting, len(tokens))
            if not text.strip():
                continue
            # A model that hears the end of a sentence is vague about the pause behind it.
            start = seek + round(span.start_s * FRAMES_PER_S)
            end = seek + round(span.end_s * FRAMES_PER_S)
            start, end = without_silence(voiced, start, end)
            segments.append(
                Segment(
                    id=self.num_segments,
                    seek=seek,
                    start_s=min(start / FRAMES_PER_S, duration_s),
                    end_s=min(end / FRAMES_PER_S, duration_s),
                    text=text,
                    tokens=span.tokens,
                    temperature=attempt.temperature,
                    avg_logprob=attempt.avg_logprob,
                    compression_ratio=attempt.compression_ratio,
                    no_speech_prob=attempt.no_speech_prob,
                    words=tuple(_words(own, offset_s=offset_s, duration_s=duration_s)),
                )
            )
            self.num_segments += 1
        return segments


def _words_of(span: Span, tokenizer: Any) -> list[int]:
    return [token for token in span.tokens if token < tokenizer.eot]


def _without_loops(spans: Sequence[Span], tokenizer: Any) -> list[Span]:
    """One round of what repeats itself, in a segment and from one segment to the next."""
    kept: list[Span] = []
    seen = None
    for span in spans:
        text = _words_of(span, tokenizer)
        if text == seen:
            continue
        seen = text
        short = without_loop(text)
        if len(short) < len(text):
            first, last = (
                [token for token in each if token >= tokenizer.timestamp_begin]
                for each in (span.tokens[:1], span.tokens[-1:])
            )
            span = Span(span.start_s, span.end_s, (*first, *short, *last))
        kept.append(span)
    return kept


def _taken(words: list[HeardWord], num_tokens: int) -> list[HeardWord]:
    """Takes the words that so many tokens make up from the front of the list."""
    taken = []
    while words and num_tokens > 0:
        word = words.pop(0)
        num_tokens -= word.num_tokens
        taken.append(word)
    return taken


def _words(heard: Iterable[HeardWord], *, offset_s: float, duration_s: float) -> Iterable[Word]:
    for word in heard:
        start_s = min(offset_s + word.start_s, duration_s)
        end_s = min(max(offset_s + word.end_s, start_s), duration_s)
        yield Word(word.text.strip(), start_s, end_s)
