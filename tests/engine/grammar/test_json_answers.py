"""Answers by random schemas, drawn at random: they parse and validate, however few tokens the
budget has, down to the shortest close that was found."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxi_mlx.core.grammar import ANY_JSON_OBJECT, Constraint, json_by_schema
from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.matcher import Matcher
from tests.engine.grammar.answers import random_answer
from tests.engine.grammar.schemas import Schema, random_schema


def check_schema(compiler: GrammarCompiler, schema: Schema, *, seed: int, spare: int) -> None:
    grammar = compiler.compile(Constraint(node=json_by_schema(schema), param="response_format"))
    assert grammar.close is not None, schema
    for max_tokens in (len(grammar.close), len(grammar.close) + spare):
        answer = random_answer(grammar, max_tokens=max_tokens, seed=seed)
        assert answer.is_whole, (schema, answer)
        assert len(answer.token_ids) <= max_tokens
        jsonschema.validate(json.loads(answer.text), schema)


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), spare=st.integers(1, 120))
def test_an_answer_validates_within_any_budget(
    compiler: GrammarCompiler, seed: int, spare: int
) -> None:
    check_schema(compiler, random_schema(random.Random(seed)), seed=seed, spare=spare)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_hundred_schemas(compiler: GrammarCompiler) -> None:
    for seed in range(200):
        chance = random.Random(seed)
        schema = random_schema(chance)
        check_schema(compiler, schema, seed=seed, spare=chance.randint(1, 300))


def test_a_budget_without_room_ends_anywhere(compiler: GrammarCompiler) -> None:
    schema = {"type": "object", "properties": {"a": {"const": "x" * 40}}, "required": ["a"]}
    grammar = compiler.compile(Constraint(node=json_by_schema(schema), param="response_format"))
    assert grammar.close is not None
    answer = random_answer(grammar, max_tokens=len(grammar.close) - 1, seed=0)
    assert not answer.is_whole
    assert len(answer.token_ids) == len(grammar.close) - 1


def test_any_object(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile(Constraint(node=ANY_JSON_OBJECT, param="response_format"))
    for seed in range(5):
        for max_tokens in (3, 40):
            answer = random_answer(grammar, max_tokens=max_tokens, seed=seed)
            assert answer.is_whole
            assert isinstance(json.loads(answer.text), dict)


@pytest.mark.slow
def test_an_object_that_opens_ever_more_is_closed_in_time(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile(Constraint(node=json_by_schema({"type": "array"}), param="x"))
    opening = next(i for i in range(600) if grammar.tokenizer.data(i) == b"[")
    answer = random_answer(grammar, max_tokens=301, seed=0, begin=[opening] * 301)
    assert answer.is_whole
    assert json.loads(answer.text) is not None
    assert answer.text.count("[") >= 100


def test_a_heavy_part_is_not_begun_without_room_for_it(compiler: GrammarCompiler) -> None:
    heavy = {
        "type": "object",
        "properties": {f"property_{i}": {"type": "integer"} for i in range(30)},
        "required": [f"property_{i}" for i in range(30)],
        "additionalProperties": False,
    }
    schema = {"type": "array", "items": heavy}
    grammar = compiler.compile(Constraint(node=json_by_schema(schema), param="x"))
    opening = next(i for i in range(600) if grammar.tokenizer.data(i) == b"[")
    for max_tokens in (2, 10, 60, 150, 400):
        answer = random_answer(grammar, max_tokens=max_tokens, seed=max_tokens, begin=[opening])
        assert answer.is_whole, max_tokens
        jsonschema.validate(json.loads(answer.text), schema)


def test_the_same_answer_every_time(compiler: GrammarCompiler) -> None:
    constraint = Constraint(node=json_by_schema(random_schema(random.Random(3))), param="x")
    first = random_answer(compiler.compile(constraint), max_tokens=60, seed=1)
    assert random_answer(compiler.compile(constraint), max_tokens=60, seed=1) == first


def test_far_from_the_end_tokens_stand_as_drawn(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile(Constraint(node=ANY_JSON_OBJECT, param="x"))
    assert not Matcher(grammar, max_tokens=4000).may_replace
    assert Matcher(grammar, max_tokens=20).may_replace
