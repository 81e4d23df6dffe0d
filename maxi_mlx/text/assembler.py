"""Turns one answer's tokens into text deltas: bytes to characters to shown text.

    token id ─► bytes ─► whole characters ─► less what may be a stop string ─► TextDelta

Knows nothing of models or clients; whole answers and streams both come from here.
"""

from __future__ import annotations

import codecs
from collections import deque

from maxi_mlx.core.events import TextDelta, TokenLogprob
from maxi_mlx.text.stop_strings import StopStrings
from maxi_mlx.text.vocabulary import Vocabulary


class Assembler:
    """One answer in the making. ``stop_string`` is set once one is met; nothing may follow it.

    A token with log-probabilities rides on the delta that shows its first character, or, if it
    has none, on the next delta.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        stops: StopStrings,
        *,
        choice: int,
        strip_first_space: bool = False,
    ) -> None:
        self._vocabulary = vocabulary
        self._matcher = stops.matcher()
        self._choice = choice
        self._strip_first_space = strip_first_space and vocabulary.strips_first_space
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._num_decoded = 0  # characters that came out of the decoder
        self._num_shown = 0
        self._waiting: deque[tuple[int, TokenLogprob]] = deque()  # first character, token

    @property
    def stop_string(self) -> str | None:
        return self._matcher.matched

    def feed(self, token_id: int, logprob: TokenLogprob | None = None) -> TextDelta | None:
        """Takes the next token; returns what it lets be shown, if anything."""
        data = self._vocabulary.visible(token_id)
        if self._strip_first_space and data:
            data = data.removeprefix(b" ")
            self._strip_first_space = False
        if logprob is not None:
            self._waiting.append((self._num_decoded, logprob))
        text = self._decoder.decode(data)
        self._num_decoded += len(text)
        return self._show(self._matcher.feed(text))

    def finish(self, *, is_cut: bool = False) -> TextDelta | None:
        """The answer has ended; returns what was held back.

        Half a character becomes U+FFFD, or nothing where the answer ``is_cut``: its other half
        was not let come.
        """
        if self.stop_string is not None:
            return None
        tail = "" if is_cut else self._decoder.decode(b"", final=True)
        self._num_decoded += len(tail)
        text = self._matcher.feed(tail)
        if self.stop_string is None:
            text += self._matcher.flush()
        delta = self._show(text)
        rest = tuple(token for _, token in self._waiting)
        self._waiting.clear()
        if not rest:
            return delta
        if delta is None:
            return TextDelta(self._choice, "", rest)
        return TextDelta(self._choice, delta.text, delta.tokens + rest)

    def _show(self, text: str) -> TextDelta | None:
        self._num_shown += len(text)
        tokens = []
        while self._waiting and self._waiting[0][0] < self._num_shown:
            tokens.append(self._waiting.popleft()[1])
        if self.stop_string is not None:
            self._waiting.clear()
        if not text and not tokens:
            return None
        return TextDelta(self._choice, text, tuple(tokens))
