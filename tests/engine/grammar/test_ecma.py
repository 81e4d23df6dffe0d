"""Patterns of JSON Schema, which llguidance is to read as JavaScript and Python do."""

from __future__ import annotations

import json
import re
import warnings

import pytest

from maxi_mlx.core.grammar import Constraint, json_by_schema
from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.ecma import rust_pattern
from maxi_mlx.engine.grammar.matcher import Matcher
from tests.engine.grammar.conftest import LoadCompiler


@pytest.fixture(scope="module")
def plain(compiler_for: LoadCompiler) -> GrammarCompiler:
    return compiler_for("qwen3")


CASES = [
    (r"^[[:alpha:]]+$", ["[]", ":]", "a]", "abc"]),
    (r"^[a&&b]$", ["a", "&", "b"]),
    (r"^[+--]$", ["+", ",", "-", "."]),
    (r"^[a~~b]$", ["a", "~", "b"]),
    (r"^[[]$", ["[", "a"]),
    (r"^[^[\]]+$", ["ab", "[", "]"]),
    (r"^[]a]$", ["]", "a", "b"]),
    (r"^[^]a]$", ["]", "a", "b"]),
    (r"^a{$", ["a{", "a"]),
    (r"^{a}$", ["{a}", "a"]),
    (r"^a{2}b{1,}c{0,1}$", ["aab", "aabbc", "ab"]),
    (r"^\{\<\>\}$", ["{<>}", "{}"]),
    (r"^[\b]$", ["\b", "b"]),
    (r"^\[\]$", ["[]", "["]),
    (r"^\\[\\]$", ["\\\\", "\\"]),
    (r"^a$|^b$", ["a", "b", "xa", "bx"]),
    (r"a$", ["xa", "ax"]),
    (r"^[\w.+-]+@[\w-]+\.[\w.]+$", ["a@b.c", "a.b"]),
]


@pytest.mark.parametrize(("pattern", "texts"), CASES)
def test_a_pattern_means_what_it_means_elsewhere(
    plain: GrammarCompiler, pattern: str, texts: list[str]
) -> None:
    schema = json_by_schema({"type": "string", "pattern": pattern})
    grammar = plain.compile(Constraint(node=schema, param="x"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python asks whether a set of sets was meant
        known = re.compile(pattern)
    for text in texts:
        matcher = Matcher(grammar, max_tokens=1000)
        token_ids = grammar.tokenizer.spell(list(json.dumps(text).encode()))
        fits = matcher.state.consume_tokens(token_ids or []) and matcher.is_accepting
        assert fits is bool(known.search(text)), text


def test_control_characters() -> None:
    assert rust_pattern(r"\cA\cz") == r"\x01\x1a"
    assert rust_pattern(r"\c") == r"\c"
