"""A model's vocabulary as llguidance wants it, made of our own table of token bytes.

There are two: the real one, for masks, and one of single bytes and special tokens, in which a short
end is searched for (`closing.py`), since a mask over some 260 symbols costs next to nothing.
Building takes a second for a large vocabulary: on a worker thread, once a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from llguidance import LLTokenizer, TokenizerWrapper

from maxi_mlx.text.vocabulary import Vocabulary

Encode = Callable[[str], Sequence[int]]

NUM_BYTES = 256


class _Table(TokenizerWrapper):
    """What `LLTokenizer` asks for. ``encode`` is how forced text is cut into tokens; where it does
    not give the text's own bytes (some add a space), the longest tokens are taken."""

    def __init__(
        self,
        tokens: Sequence[bytes],
        *,
        special_ids: Set[int],
        end_id: int,
        encode: Encode | None,
    ) -> None:
        # TokenizerWrapper's own constructor wants a tokenizer to wrap.
        self.is_tokenizer_wrapper = True
        self.bos_token_id = None
        self.tokens = list(tokens)
        self.special_token_ids = sorted(special_ids)
        self.eos_token_id = end_id
        self._encode = encode
        self._ids = {
            data: i
            for i, data in reversed(list(enumerate(self.tokens)))
            if data and i not in special_ids
        }
        self._longest_bytes = max(map(len, self._ids), default=1)

    def __call__(self, text: str | bytes) -> list[int]:
        data = text.encode("utf-8", errors="replace") if isinstance(text, str) else text
        if self._encode is not None and isinstance(text, str):
            token_ids = list(self._encode(text))
            known = [self.tokens[i] for i in token_ids if i < len(self.tokens)]
            if len(known) == len(token_ids) and b"".join(known) == data:
                return token_ids
        return self.longest(data) or []

    def longest(self, data: bytes) -> list[int] | None:
        """``data`` in tokens, the longest first; None where the vocabulary can't spell it."""
        token_ids, place = [], 0
        while place < len(data):
            for size in range(min(self._longest_bytes, len(data) - place), 0, -1):
                token_id = self._ids.get(data[place : place + size])
                if token_id is not None:
                    break
            else:
                return None
            token_ids.append(token_id)
            place += size
        return token_ids


class GrammarTokenizer:
    """``tokens`` and ``symbols`` are the two vocabularies. A symbol below 256 is a byte, one above
    a special token (`symbol_of`). ``size`` is the width of the logits."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        size: int,
        end_ids: Set[int],
        encode: Encode | None = None,
    ) -> None:
        data = [vocabulary.data(i) for i in range(size)]
        special_ids = {i for i in vocabulary.special_ids if i < size} | set(end_ids)
        ends = sorted(end_ids)
        if not ends:
            # A model without an end: llguidance needs one, which no mask can let through.
            ends = [size]
            data.append(b"<no end>")
            special_ids.add(size)
        self.size = size
        self.end_id: int | None = min(end_ids, default=None)
        self.special_names = {
            data[i].decode("utf-8", errors="replace"): i
            for i in sorted(special_ids)
            if data[i] and i < size
        }
        self._data = data
        self._table = _Table(data, special_ids=special_ids, end_id=ends[0], encode=encode)
        self.tokens = LLTokenizer(self._table, eos_token=ends)
        order = sorted(special_ids)
        self.symbol_of = {token_id: NUM_BYTES + i for i, token_id in enumerate(order)}
        self._token_of = dict(enumerate(order, NUM_BYTES))
        symbols = [bytes([i]) for i in range(NUM_BYTES)] + [data[i] for i in order]
        symbol_ends = [self.symbol_of[i] for i in ends]
        table = _Table(
            symbols,
            special_ids=set(self._token_of),
            end_id=symbol_ends[0],
            encode=None,
        )
        self.symbols = LLTokenizer(table, eos_token=symbol_ends, slices=[])
        self.num_symbols = len(symbols)

    def symbols_of(self, token_id: int) -> Sequence[int]:
        """A token as symbols: its bytes, or the one of a special token."""
        symbol = self.symbol_of.get(token_id)
        return (symbol,) if symbol is not None else self._data[token_id]

    def spell(self, symbols: Sequence[int]) -> list[int] | None:
        """Symbols as few tokens; None where the vocabulary can't spell them."""
        token_ids: list[int] = []
        run = bytearray()
        for symbol in [*symbols, None]:
            if symbol is not None and symbol < NUM_BYTES:
                run.append(symbol)
                continue
            longest = self._table.longest(bytes(run))
            if longest is None:
                return None
            token_ids += longest
            run.clear()
            if symbol is not None:
                token_ids.append(self._token_of[symbol])
        return token_ids

    def data(self, token_id: int) -> bytes:
        """A token's bytes, a special one's name included."""
        return self._data[token_id]


def encoder_of(tokenizer: Any) -> Encode | None:
    """How transformers' or mlx-lm's tokenizer cuts text into tokens, by a copy of what is below:
    theirs is changed by whoever uses it, and may be in use on another thread."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    copy = type(backend).from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = copy.encode(text, add_special_tokens=False).ids
        return ids

    return encode
