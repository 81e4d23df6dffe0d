"""What an answer must be, by what was asked for and by how the model thinks: whole answers that fit
and that do not, in a vocabulary of bytes and tags."""

from __future__ import annotations

import re
from typing import Any

import pytest

from maxi_mlx.core.grammar import Constraint, json_by_schema
from maxi_mlx.core.request import (
    ChatPrompt,
    GenerateRequest,
    Message,
    Reasoning,
    Tool,
    ToolChoice,
)
from maxi_mlx.engine.answer_form import AnswerForm, answer_form
from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.matcher import Matcher
from maxi_mlx.engine.grammar.tokens import GrammarTokenizer
from maxi_mlx.text.reasoning import ReasoningFormat
from maxi_mlx.text.reasoning.formats import HARMONY, MUSE_SPARK, THINK
from maxi_mlx.text.tool_calls import syntaxes
from maxi_mlx.text.tool_calls.syntax import ToolSyntax
from maxi_mlx.text.vocabulary import Vocabulary

_TAGS = (
    *("<end>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|message|>", "<|end|>"),
    *("<|channel|>", "<|start|>", "<|call|>", "<|constrain|>", "<|eom|>", "<|eot|>"),
)
_TAG = re.compile("|".join(map(re.escape, _TAGS)))
_IDS = {tag: 256 + i for i, tag in enumerate(_TAGS)}


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    data = [*(bytes([i]) for i in range(256)), *(tag.encode() for tag in _TAGS)]
    vocabulary = Vocabulary(data, special_ids=set(_IDS.values()))
    tokenizer = GrammarTokenizer(vocabulary, size=len(data), end_ids={_IDS["<end>"]})
    return GrammarCompiler(lambda: tokenizer)


def token_ids(text: str) -> list[int]:
    ids, place = [], 0
    for match in _TAG.finditer(text):
        ids += [*text[place : match.start()].encode(), _IDS[match[0]]]
        place = match.end()
    return [*ids, *text[place:].encode()]


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORM = Constraint(node=json_by_schema(SCHEMA), param="response_format")
STRICT = Tool(name="f", parameters={**SCHEMA, "additionalProperties": False}, strict=True)
LOOSE = Tool(name="g")


def form_of(
    format: ReasoningFormat | None,
    syntax: ToolSyntax | None = None,
    *,
    is_open: bool = False,
    prefill: str | None = None,
    **fields: Any,
) -> AnswerForm:
    tools = () if syntax is None else fields.pop("tools", (STRICT, LOOSE))
    prompt = ChatPrompt(messages=(Message(role="user", text="Go."),), tools=tools, prefill=prefill)
    request = GenerateRequest(id="r", model="m", prompts=(prompt,), **fields)
    return answer_form(request, syntax, format, thought_is_open=is_open)


REQUIRED: dict[str, Any] = {"tool_choice": ToolChoice(mode="required")}
CALL = '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>'
ANALYSIS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
ASIDE = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>"


def harmony_call(name: str, arguments: str) -> str:
    head = f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
    return f"{head}{arguments}<|call|>"


HARMONY_CALL = harmony_call("f", '{"a":1}')
CASES: dict[str, tuple[AnswerForm, list[str], list[str]]] = {
    "a form": (form_of(None, constraint=FORM), ['{"a":1}'], ["<think></think>{}", "{}"]),
    "a form after a thought": (
        form_of(THINK, constraint=FORM),
        ['{"a":1}', '<think>Hm.</think>\n\n{"a":1}'],
        ["<think>Hm.</think>", "<think></think><think></think>{}", "{}"],
    ),
    "a form and no thought": (
        form_of(THINK, constraint=FORM, reasoning=Reasoning(enabled=False)),
        ['{"a":1}'],
        ['<think>Hm.</think>{"a":1}'],
    ),
    "a form and a budget of none": (
        form_of(THINK, constraint=FORM, reasoning=Reasoning(budget_tokens=0)),
        ['{"a":1}'],
        ['<think></think>{"a":1}'],
    ),
    "a form that goes on": (
        form_of(THINK, constraint=FORM, prefill="So:"),
        ['{"a":1}'],
        ['<think></think>{"a":1}'],
    ),
    "a form after an open thought": (
        form_of(THINK, is_open=True, constraint=FORM, reasoning=Reasoning(enabled=False)),
        ['Hm.</think>\n{"a":1}', '</think>{"a":1}'],
        ['{"a":1}', '<think></think>{"a":1}'],
    ),
    "calls after a thought": (
        form_of(THINK, syntaxes.JSON_TOOLS, **REQUIRED),
        [CALL, f"<think>Hm.</think>\n\n{CALL}\n{CALL}"],
        ["Hi", "<think>Hm.</think>Hi", CALL.replace("1", '"x"')],
    ),
    "calls and no thought": (
        form_of(THINK, syntaxes.JSON_TOOLS, reasoning=Reasoning(enabled=False), **REQUIRED),
        [CALL],
        [f"<think>Hm.</think>{CALL}"],
    ),
    "strict calls in text": (
        form_of(THINK, syntaxes.JSON_TOOLS),
        ["Hi", f"<think>Hm.</think>I look.\n{CALL}\n{CALL} Done."],
        [f"I look.{CALL.replace('1', 'true')}", "<think>Hm."],
    ),
    "one strict call in text": (
        form_of(THINK, syntaxes.JSON_TOOLS, parallel_tool_calls=False),
        ["Hi", CALL, f"I look.\n{CALL} Done."],
        [f"{CALL}\n{CALL}"],
    ),
    "a form beside calls": (
        form_of(THINK, syntaxes.JSON_TOOLS, constraint=FORM),
        ['<think>Hm.</think>{"a":1}', CALL],
        ["Hi", f'{{"a":1}}{CALL}'],
    ),
    "messages: a form": (
        form_of(HARMONY, constraint=FORM),
        [f'{ANALYSIS}{FINAL}{{"a":1}}', f'{FINAL}{{"a":1}}'],
        ['{"a":1}', f"{FINAL}Hi", f"{ANALYSIS}Hi", '<|channel|>analysis<|message|>{"a":1}'],
    ),
    "messages: a form and no thought": (
        form_of(HARMONY, constraint=FORM, reasoning=Reasoning(enabled=False)),
        [f'{FINAL}{{"a":1}}'],
        [f'{ANALYSIS}{FINAL}{{"a":1}}'],
    ),
    "messages: a form after an open thought": (
        form_of(HARMONY, is_open=True, constraint=FORM),
        [f'Hm.<|end|><|start|>assistant{FINAL}{{"a":1}}'],
        [f'{FINAL}{{"a":1}}'],
    ),
    "messages: calls": (
        form_of(HARMONY, syntaxes.HARMONY, **REQUIRED),
        [HARMONY_CALL, ANALYSIS + HARMONY_CALL],
        [f"{FINAL}Hi", f"{ANALYSIS}{FINAL}Hi", harmony_call("f", "{}"), harmony_call("h", "{}")],
    ),
    "messages: strict calls": (
        form_of(HARMONY, syntaxes.HARMONY),
        [
            f"{FINAL}Hi",
            f"{ANALYSIS}{FINAL}Hi",
            f"{ANALYSIS}{ASIDE}{ANALYSIS}{HARMONY_CALL}",
            harmony_call("g", '{"any":[]}'),
        ],
        ["Hi", harmony_call("f", '{"a":"x"}'), f"{ANALYSIS}{harmony_call('f', '{}')}"],
    ),
    "messages: a form beside calls": (
        form_of(HARMONY, syntaxes.HARMONY, constraint=FORM),
        [f'{ANALYSIS}{FINAL}{{"a":1}}', ANALYSIS + HARMONY_CALL],
        [f"{FINAL}Hi", '{"a":1}'],
    ),
    "headers of words": (
        form_of(MUSE_SPARK, constraint=FORM),
        [
            'to=user<|message|>{"a":1}',
            'to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>{"a":1}',
        ],
        ['{"a":1}', "to=user<|message|>Hi"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_answers_that_fit_and_that_do_not(compiler: GrammarCompiler, name: str) -> None:
    form, good, bad = CASES[name]
    assert form.constraint is not None
    grammar = compiler.compile(form.constraint)
    for texts, is_right in ((good, True), (bad, False)):
        for text in texts:
            matcher = Matcher(grammar, max_tokens=1000)
            fits = matcher.state.consume_tokens(token_ids(text)) and matcher.is_accepting
            assert fits is is_right, text


def test_what_ends_in_free_text() -> None:
    free = {name for name, (form, _, _) in CASES.items() if form.ends_freely}
    assert free == {
        "strict calls in text",
        "one strict call in text",
        "messages: strict calls",
    }


def test_where_no_thought_may_come_nothing_is_a_tag_of_one() -> None:
    without = {name for name, (form, _, _) in CASES.items() if not form.may_think}
    assert without == {
        "a form and no thought",
        "a form and a budget of none",
        "a form that goes on",
        "calls and no thought",
    }
