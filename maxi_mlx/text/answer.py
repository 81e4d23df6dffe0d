"""Turns one answer's tokens into events: text, thoughts and tool calls.

    token id ─► characters ─► ReasoningSplitter ─► ToolCallReader ─► StopMatcher ─► TextDelta
                                  └─► ReasoningDelta     └─► ToolCallStart, ToolCallDelta

Either machine may be absent. Stop strings are looked for in the text that a user sees, so that they
cut neither a thought nor a call. Knows nothing of models or clients.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Set
from typing import assert_never

from maxi_mlx.core.events import (
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    ToolCallStart,
)
from maxi_mlx.text.pieces import CallDelta, CallEnd, CallStart, Content, Piece, Reasoning
from maxi_mlx.text.reasoning.splitter import ReasoningSplitter
from maxi_mlx.text.stop_strings import StopStrings
from maxi_mlx.text.tool_calls.reader import ToolCallReader
from maxi_mlx.text.vocabulary import Vocabulary

AnswerEvent = TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta


class AnswerText:
    """One answer in the making. ``stop_string`` is set once one is met; nothing may follow it.
    ``ends_with_call``: nothing but a whole call came last, so that no budget cut it.

    ``tag_ids`` are special tokens that are shown to the machines by name, since they are tags
    (`Vocabulary.special_ids_in`). A token with log-probabilities rides on the text or thought that
    is told once its first character is, or on the next; those of calls and of tags ride nowhere.

    ``has_only_calls``: its grammar lets nothing else be said, so that what is left of a call that
    was cut before its name is no text.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        stops: StopStrings,
        *,
        choice: int,
        strip_first_space: bool = False,
        splitter: ReasoningSplitter | None = None,
        reader: ToolCallReader | None = None,
        tag_ids: Set[int] = frozenset(),
        has_only_calls: bool = False,
    ) -> None:
        self._vocabulary = vocabulary
        self._stops = stops
        self._matcher = stops.matcher()
        self._choice = choice
        self._strip_first_space = strip_first_space and vocabulary.strips_first_space
        self._splitter = splitter
        self._reader = reader
        self._tag_ids = tag_ids
        self._has_only_calls = has_only_calls
        self._tells_text = True
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._num_decoded = 0  # characters that came out of the decoder
        self._num_in_matcher = 0
        self._waiting: deque[tuple[int, TokenLogprob]] = deque()  # first character, token
        self._are_thoughts: deque[bool] = deque()  # of the first of those, as far as it is known
        self._said: list[TokenLogprob] = []  # for the next text
        self._thought: list[TokenLogprob] = []  # for the next thought
        self._is_after_call = False
        self.ends_with_call = False
        self._is_finished = False
        self._events: list[AnswerEvent] = []

    @property
    def stop_string(self) -> str | None:
        return self._matcher.matched

    @property
    def num_tool_calls(self) -> int:
        return self._reader.num_calls if self._reader is not None else 0

    @property
    def num_reasoning_tokens(self) -> int:
        return self._splitter.num_reasoning_tokens if self._splitter is not None else 0

    def feed(self, token_id: int, logprob: TokenLogprob | None = None) -> list[AnswerEvent]:
        """Takes the next token; returns what it lets be told."""
        vocabulary = self._vocabulary
        is_tag = token_id in self._tag_ids
        data = vocabulary.data(token_id) if is_tag else vocabulary.visible(token_id)
        if self._strip_first_space and data:
            data = data.removeprefix(b" ")
            self._strip_first_space = False
        if logprob is not None:
            self._waiting.append((self._num_decoded, logprob))
        self._add(self._decoder.decode(data), num_tokens=1)
        return self._told()

    def finish(self, *, is_cut: bool = False) -> list[AnswerEvent]:
        """The answer has ended; returns what was held back.

        Half a character becomes U+FFFD, or nothing where the answer ``is_cut``: its other half
        was not let come.
        """
        if self.stop_string is not None:
            return []
        self._is_finished = True
        self._tells_text = not (is_cut and self._has_only_calls)
        self._add("" if is_cut else self._decoder.decode(b"", final=True), num_tokens=0)
        if self._splitter is not None:
            self._take(self._splitter.finish(is_cut=is_cut))
        if self._reader is not None:
            self._tell(self._reader.finish(is_cut=is_cut))
        self._flush_matcher()
        events = self._told()
        if self._said and not self._is_after_call:
            events.append(self._with_tokens(TextDelta(self._choice, "")))
        return events

    def _add(self, text: str, *, num_tokens: int) -> None:
        self._num_decoded += len(text)
        if self._splitter is not None:
            self._take(self._splitter.feed(text, num_tokens=num_tokens))
        elif text:
            self._take([Content(text)])

    def _take(self, pieces: list[Piece]) -> None:
        """Looks for calls in what is said."""
        for piece in pieces:
            if isinstance(piece, Content) and self._reader is not None:
                self._tell(self._reader.feed(piece.text))
            else:
                self._tell([piece])

    def _tell(self, pieces: list[Piece]) -> None:
        choice = self._choice
        for piece in pieces:
            if self.stop_string is not None:
                return
            self.ends_with_call = isinstance(piece, CallEnd) and piece.is_whole
            match piece:
                case Content(text):
                    if self._tells_text:
                        self._match(text)
                case Reasoning(text):
                    self._flush_matcher()
                    self._events.append(ReasoningDelta(choice, text))
                case CallStart(index, id, name):
                    self._flush_matcher()
                    self._events.append(ToolCallStart(choice, index, id, name))
                case CallDelta(index, arguments):
                    self._events.append(ToolCallDelta(choice, index, arguments))
                case CallEnd():
                    pass
                case _:
                    assert_never(piece)

    def _match(self, text: str) -> None:
        shown = self._matcher.feed(text)
        self._num_in_matcher += len(text) - len(shown)
        if shown:
            self._events.append(TextDelta(self._choice, shown))

    def _flush_matcher(self) -> None:
        """No stop string goes on beyond the end of a piece of text."""
        held = self._matcher.flush() if self.stop_string is None else ""
        if held:
            self._matcher = self._stops.matcher()
            self._num_in_matcher = 0
            self._events.append(TextDelta(self._choice, held))

    def _told(self) -> list[AnswerEvent]:
        """What there is to tell, with the tokens whose first characters are settled."""
        events, self._events = self._events, []
        if self._waiting or self._said or self._thought:
            self._settle()
            self._let_ride(events)
        if events:
            self._is_after_call = isinstance(events[-1], ToolCallStart | ToolCallDelta)
        if self.stop_string is not None and self._said:
            events.append(self._with_tokens(TextDelta(self._choice, "")))
        return events

    def _settle(self) -> None:
        """Sorts the tokens whose first characters are told, or are told nobody."""
        num_held = self._num_in_matcher
        num_held += self._splitter.num_held if self._splitter is not None else 0
        num_held += self._reader.num_held if self._reader is not None else 0
        num_settled = self._num_decoded - num_held
        if self._is_finished and self.stop_string is None:
            num_settled = self._num_decoded + 1
        if self._splitter is not None:
            self._are_thoughts += self._splitter.take_sorted()
        while self._waiting and self._waiting[0][0] < num_settled:
            if self._splitter is not None and not self._are_thoughts:
                return
            _, token = self._waiting.popleft()
            is_thought = self._splitter is not None and self._are_thoughts.popleft()
            (self._thought if is_thought else self._said).append(token)

    def _let_ride(self, events: list[AnswerEvent]) -> None:
        """Puts tokens on the last text and the last thought among ``events``, if there are any."""
        for i in range(len(events) - 1, -1, -1):
            event = events[i]
            if isinstance(event, TextDelta | ReasoningDelta):
                events[i] = self._with_tokens(event)
        if self._reader is not None and self._reader.was_in_call:
            self._said.clear()

    def _with_tokens(self, event: TextDelta | ReasoningDelta) -> TextDelta | ReasoningDelta:
        if isinstance(event, TextDelta):
            tokens, self._said = tuple(self._said), []
            return TextDelta(event.choice, event.text, tokens)
        tokens, self._thought = tuple(self._thought), []
        return ReasoningDelta(event.choice, event.text, tokens)
