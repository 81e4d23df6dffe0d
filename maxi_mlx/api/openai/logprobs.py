"""Log-probabilities in the shapes of the two endpoints. JSON has no infinities: they are cut."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from maxi_mlx.api.openai.answer_schema import (
    ChatLogprobs,
    ScoredToken,
    TextLogprobs,
    TokenScore,
)
from maxi_mlx.core.events import TokenLogprob, TopLogprob

# What OpenAI writes for a token that is as good as impossible.
LOWEST_LOGPROB = -9999.0


def finite(logprob: float) -> float:
    """A number that JSON can hold; the comparison is false for NaN too."""
    return min(logprob, 0.0) if logprob > LOWEST_LOGPROB else LOWEST_LOGPROB


def chat_logprobs(tokens: Iterable[TokenLogprob]) -> ChatLogprobs:
    content: list[ScoredToken] = [
        {**_token(token), "top_logprobs": [_token(other) for other in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _token(token: TokenLogprob | TopLogprob) -> TokenScore:
    return {
        "token": token.text,
        "logprob": finite(token.logprob),
        "bytes": list(token.data),
    }


class CompletionLogprobs:
    """One answer's tokens in the older shape of four parallel lists.

    It lives as long as the answer: a token's offset counts the characters of all before it.
    """

    def __init__(self) -> None:
        self._num_chars = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Iterable[TokenLogprob]) -> TextLogprobs:
        """The next tokens' lists."""
        tokens = tuple(tokens)
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [finite(token.logprob) for token in tokens],
            "top_logprobs": [_top(token) for token in tokens],
            "text_offset": [self._offset(token) for token in tokens],
        }

    def _offset(self, token: TokenLogprob) -> int:
        # By bytes, not by each token's text: a character may be spread over several tokens, and
        # they all begin where it begins.
        offset = self._num_chars
        self._num_chars += len(self._decoder.decode(token.data))
        return offset


def _top(token: TokenLogprob) -> dict[str, float]:
    """By text. The chosen token is always among them; of two that look alike the likelier stays."""
    top: dict[str, float] = {}
    shown: tuple[TokenLogprob | TopLogprob, ...] = (*token.top, token)
    for other in shown:
        logprob = finite(other.logprob)
        top[other.text] = max(logprob, top.get(other.text, LOWEST_LOGPROB))
    return top
