"""What each token is in bytes, read off the tokenizer's own tables.

Bytes, not text: a token may hold half a character, and only the joined bytes are UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_WORD_MARK = "\u2581"  # SentencePiece's mark for a space


def _byte_level_alphabet() -> dict[str, int]:
    """The printable stand-ins that byte-level BPE (GPT-2, 2019) writes bytes with."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in plain}
    shifted = (byte for byte in range(256) if byte not in set(plain))
    alphabet.update({chr(0x100 + i): byte for i, byte in enumerate(shifted)})
    return alphabet


_ALPHABET = _byte_level_alphabet()


def byte_level_bytes(piece: str) -> bytes:
    """A piece of byte-level BPE; one that is not in its alphabet stands for itself."""
    try:
        return bytes(_ALPHABET[character] for character in piece)
    except KeyError:
        return piece.encode("utf-8")


def word_mark_bytes(piece: str) -> bytes:
    """A piece of SentencePiece: its mark is a space, ``<0x0A>`` a byte."""
    match = _BYTE_PIECE.fullmatch(piece)
    if match:
        return bytes([int(match[1], 16)])
    return piece.replace(_WORD_MARK, " ").encode("utf-8")


def _steps(decoder: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if decoder is None:
        return []
    if decoder.get("type") == "Sequence":
        return [step for inner in decoder.get("decoders", []) for step in _steps(inner)]
    return [decoder]


def piece_decoder(decoder: Mapping[str, Any] | None) -> Callable[[str], bytes] | None:
    """How the ``decoder`` of a tokenizer.json turns a piece into bytes; None where a piece has no
    bytes of its own (WordPiece, whose spaces depend on the neighbours)."""
    kinds = {step.get("type") for step in _steps(decoder)}
    if "ByteLevel" in kinds:
        return byte_level_bytes
    replaces_mark = any(
        step.get("type") == "Replace" and step.get("pattern") == {"String": _WORD_MARK}
        for step in _steps(decoder)
    )
    if replaces_mark or kinds & {"Metaspace", "ByteFallback"}:
        return word_mark_bytes
    return None


def strips_first_space(decoder: Mapping[str, Any] | None) -> bool:
    """Whether a whole text loses its first space when decoded (SentencePiece puts one there)."""
    return any(
        (step.get("type") == "Strip" and step.get("content") == " " and step.get("start", 0) > 0)
        or (step.get("type") == "Metaspace" and step.get("prepend_scheme") != "never")
        for step in _steps(decoder)
    )


class Vocabulary:
    """Token ids and their bytes. ``special_ids`` are left out of an answer's text."""

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        *,
        special_ids: Set[int],
        strips_first_space: bool = False,
    ) -> None:
        self._token_bytes = tuple(token_bytes)
        self.special_ids = frozenset(special_ids)
        self.strips_first_space = strips_first_space
        self.longest_bytes = max(map(len, self._token_bytes), default=0)

    def data(self, token_id: int) -> bytes:
        """The bytes of a token, a special one's name included; none for an id beyond the
        tokenizer's table (models pad their vocabulary to a round size)."""
        return self._token_bytes[token_id] if token_id < len(self._token_bytes) else b""

    def visible(self, token_id: int) -> bytes:
        """The bytes that a token adds to an answer's text."""
        return b"" if token_id in self.special_ids else self.data(token_id)

    def special_ids_in(self, texts: Iterable[str]) -> frozenset[int]:
        """The special tokens that ``texts`` are written with, such as the tags of a call."""
        joined = "\n".join(texts).encode("utf-8")
        return frozenset(
            token_id
            for token_id in self.special_ids
            if self.data(token_id) and self.data(token_id) in joined
        )

    def text(self, token_ids: Sequence[int]) -> str:
        return b"".join(map(self.data, token_ids)).decode("utf-8", errors="replace")
