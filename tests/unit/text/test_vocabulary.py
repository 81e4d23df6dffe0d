"""Pieces to bytes, against the tokenizers library's own decoders."""

from __future__ import annotations

import json

import pytest
from tokenizers import decoders

from maxi_mlx.text.vocabulary import (
    byte_level_bytes,
    piece_decoder,
    strips_first_space,
    word_mark_bytes,
)

LLAMA_2 = decoders.Sequence(
    [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
)
GEMMA = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


def settings(decoder: decoders.Decoder) -> dict[str, object]:
    return dict(json.loads(decoder.__getstate__()))


@pytest.mark.parametrize(
    ("decoder", "function"),
    [
        pytest.param(decoders.ByteLevel(), byte_level_bytes, id="byte level"),
        pytest.param(LLAMA_2, word_mark_bytes, id="llama 2"),
        pytest.param(GEMMA, word_mark_bytes, id="gemma"),
        pytest.param(decoders.Metaspace(), word_mark_bytes, id="metaspace"),
        pytest.param(decoders.WordPiece(), None, id="word piece"),
    ],
)
def test_the_decoder_says_how_pieces_are_written(
    decoder: decoders.Decoder, function: object
) -> None:
    assert piece_decoder(settings(decoder)) is function


def test_a_tokenizer_without_a_decoder_has_no_bytes_of_its_own() -> None:
    assert piece_decoder(None) is None


@pytest.mark.parametrize("text", ["Hello world", "  two", "日本語 🎉\n\t", "é\x00\x7f\xad"])
def test_byte_level_pieces_give_what_the_library_decodes(text: str) -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    pieces = [piece for piece, _ in ByteLevel(add_prefix_space=False).pre_tokenize_str(text)]
    assert b"".join(map(byte_level_bytes, pieces)).decode() == text


@pytest.mark.parametrize(
    ("piece", "data"),
    [
        ("▁the", b" the"),
        ("<0x0A>", b"\n"),
        ("<0xE8>", b"\xe8"),
        ("<0x0>", b"<0x0>"),
        ("é", "é".encode()),
    ],
)
def test_word_mark_pieces(piece: str, data: bytes) -> None:
    assert word_mark_bytes(piece) == data


@pytest.mark.parametrize(
    ("decoder", "strips"),
    [
        pytest.param(LLAMA_2, True, id="llama 2"),
        pytest.param(GEMMA, False, id="gemma"),
        pytest.param(decoders.ByteLevel(), False, id="byte level"),
        pytest.param(decoders.Metaspace(), True, id="metaspace"),
        pytest.param(decoders.Metaspace(prepend_scheme="never"), False, id="metaspace, none"),
    ],
)
def test_which_tokenizers_put_a_space_in_front(decoder: decoders.Decoder, strips: bool) -> None:
    assert strips_first_space(settings(decoder)) is strips
