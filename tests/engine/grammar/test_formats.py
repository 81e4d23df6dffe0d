"""Formats of strings: ours, for text without quotes, and llguidance's, within JSON."""

from __future__ import annotations

import json
import re

import pytest

from maxi_mlx.core.grammar import Constraint, json_by_schema
from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.formats import EXAMPLES, PATTERNS
from maxi_mlx.engine.grammar.matcher import Matcher
from tests.engine.grammar.conftest import LoadCompiler

GOOD = {
    "date": ["2024-02-28", "1999-11-30", "2000-10-31"],
    "time": ["23:59:59Z", "00:00:00.125+02:30"],
    "date-time": ["2024-02-28T23:59:59Z", "2000-01-01T00:00:00.5-11:00"],
    "duration": ["P3Y6M4DT12H30M5S", "PT5M", "P2W", "P1M"],
    "email": ["a.b+c@mail.example.org", "x@y.z"],
    "hostname": ["example.org", "a-b.c1"],
    "ipv4": ["192.168.0.255", "8.8.8.8"],
    "ipv6": ["::1", "2001:db8::8a2e:370:7334", "1:2:3:4:5:6:7:8", "fe80::"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "uri": ["https://example.org/a?b=c#d", "mailto:a@b.c"],
}
BAD = {
    "date": ["2024-02-31", "2024-13-01", "24-01-01", "2024-04-31"],
    "time": ["24:00:00Z", "12:00Z", "12:00:00"],
    "date-time": ["2024-02-28", "2024-02-28 23:59:59Z"],
    "duration": ["P", "PT", "5M", "P1DT"],
    "email": ["a", "@b.c", "a@", ".a@b.c", "a@b@c"],
    "hostname": ["-a", "a..b", "a_b", ""],
    "ipv4": ["256.1.1.1", "1.2.3", "1.2.3.4.5"],
    "ipv6": ["1:2:3", "1::2::3", ":::", "12345::", "1:2:3:4:5:6:7:8:9"],
    "uuid": ["123e4567e89b12d3a456426614174000", "x"],
    "uri": ["example", "://a", "a:b c"],
}


def test_every_format_has_all() -> None:
    assert PATTERNS.keys() == EXAMPLES.keys() == GOOD.keys() == BAD.keys()


@pytest.mark.parametrize("name", PATTERNS)
def test_texts_of_a_format(name: str) -> None:
    pattern = re.compile(PATTERNS[name])
    for text in (EXAMPLES[name], *GOOD[name]):
        assert pattern.fullmatch(text), text
    for text in BAD[name]:
        assert not pattern.fullmatch(text), text


@pytest.fixture(scope="module")
def plain(compiler_for: LoadCompiler) -> GrammarCompiler:
    return compiler_for("qwen3")


@pytest.mark.parametrize("name", PATTERNS)
def test_within_json_they_are_the_same(plain: GrammarCompiler, name: str) -> None:
    schema = json_by_schema({"type": "string", "format": name})
    grammar = plain.compile(Constraint(node=schema, param="x"))
    for text in (EXAMPLES[name], *GOOD[name]):
        matcher = Matcher(grammar, max_tokens=1000)
        token_ids = grammar.tokenizer.spell(list(json.dumps(text).encode()))
        assert matcher.state.consume_tokens(token_ids or []), text
        assert matcher.is_accepting, text
