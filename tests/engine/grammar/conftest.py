"""Compilers for the tokenizers of the tiny models, and one of numbers for exact tests."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tokenizers import Tokenizer

from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.tokens import GrammarTokenizer
from maxi_mlx.text.vocabulary import Vocabulary, piece_decoder
from tests.conftest import TinyModel

# One tokenizer of each kind: byte level with tags, and SentencePiece that adds a space.
FAMILIES = ("qwen3", "llama")
LoadCompiler = Callable[[str], GrammarCompiler]


@pytest.fixture(scope="session")
def compiler_for(tiny_model: TinyModel) -> LoadCompiler:
    compilers: dict[str, GrammarCompiler] = {}

    def load(family: str) -> GrammarCompiler:
        if family not in compilers:
            path = tiny_model(family) / "tokenizer.json"
            compilers[family] = GrammarCompiler(lambda: make_tokenizer(str(path)))
        return compilers[family]

    return load


@pytest.fixture(scope="session", params=FAMILIES)
def compiler(request: pytest.FixtureRequest, compiler_for: LoadCompiler) -> GrammarCompiler:
    return compiler_for(request.param)


def make_tokenizer(path: str) -> GrammarTokenizer:
    tokenizer = Tokenizer.from_file(path)
    document = json.loads(tokenizer.to_str())
    to_bytes = piece_decoder(document["decoder"])
    assert to_bytes is not None
    size = tokenizer.get_vocab_size() + 9  # as models pad it
    data = [to_bytes(tokenizer.id_to_token(i)) for i in range(tokenizer.get_vocab_size())]
    special = set()
    for token in document["added_tokens"]:
        data[token["id"]] = token["content"].encode()
        if token["special"]:
            special.add(token["id"])
    end = min(special)
    return GrammarTokenizer(
        Vocabulary(data, special_ids=special),
        size=size,
        end_ids={end},
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
    )
