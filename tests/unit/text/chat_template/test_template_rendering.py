"""Our rendering is transformers', byte for byte, and so are its refusals' words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from maxi_mlx.core.request import Message, Tool, ToolCall
from maxi_mlx.text.chat_template import JinjaTemplate, RenderFailed
from maxi_mlx.text.chat_template.environment import make_environment
from maxi_mlx.text.chat_template.forms import Form, template_messages, template_tools
from tests.models import templates

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

# What Hugging Face's templates use beside plain Jinja, each thing in a template of its own.
FEATURES = {
    "generation": "{% for m in messages %}\n{% generation %}\n{{ m.content }}\n"
    "{% endgeneration %}\n{% endfor %}",
    "scope": "{% set x = 1 %}{% generation %}{% set x = 2 %}{% endgeneration %}{{ x }}",
    "json": "{{ tools | tojson }}|{{ tools | tojson(indent=2) }}"
    "|{{ messages | tojson(sort_keys=true) }}"
    "|{{ messages | tojson(separators=(',', ':')) }}|{{ messages | tojson(ensure_ascii=true) }}",
    "loop controls": "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}"
    "{{ m.role }}{% if loop.length > 3 %}{% break %}{% endif %}{{ loop.last }}{% endfor %}",
    "loop variables": "{% for m in messages %}{{ loop.index }}{{ loop.revindex }}{{ loop.first }}"
    "{{ loop.previtem.role }}{{ loop.nextitem.role }}{{ loop.cycle('a', 'b') }}"
    "{{ loop.changed(m.role) }}{% else %}none{% endfor %}",
    "filtered loop": "{% for m in messages if m.role == 'user' %}{{ loop.length }}{{ m.content }}"
    "{% endfor %}",
    "recursive loop": "{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}"
    "({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}",
    "trimmed": "a\n  {% if true %}\n  b\n  {% endif %}\n  c {%- if true %} d {% endif -%} e\n",
    "namespace": "{% set n = namespace(a=1, self=2) %}{% for m in messages %}"
    "{% set n.a = n.a + loop.index %}{% endfor %}{{ n.a }}{{ n.self }}",
    "hidden namespace": "{% set n = namespace(_a=1) %}{{ n._a }}",
    "dictionary": "{{ dict(a=1, b=[2]) }}{{ dict.fromkeys([1, 2], 3) }}",
    "macros": "{% macro f(x, y='z') %}[{{ x }}{{ y }}{{ caller() if caller }}]{% endmacro %}"
    "{{ f(1) }}{{ f(2, y=3) }}{% call f(4) %}inside{% endcall %}",
    "sums": "{{ 'a' ~ 1 ~ none ~ [1] }}{{ 'a' + 'b' }}{{ 2 * 'ab' }}{{ '%s-%05.2f' % ('x', 2.5) }}"
    "{{ 2 ** 10 }}{{ [1] + [2] }}{{ 7 % 4 }}{{ 7 // 2 }}{{ -1.5 * 2 }}",
    "strings": "{% for m in messages %}{{ m.content.strip().split('\\n')[0].center(40) }}"
    "{{ m.content | trim | upper | replace('HI', 'ho') | truncate(9) | indent(3) }}"
    "{{ m.content.rstrip().lstrip('\\n').startswith(' ') }}{% endfor %}",
    "tests": "{% for m in messages %}{{ m.name is defined }}{{ m.content is string }}"
    "{{ m is mapping }}{{ m.tool_calls is iterable }}{{ m['content'] is none }}{% endfor %}"
    "{{ tools is not none }}",
    "selecting": "{{ messages | map(attribute='role') | list }}{{ messages | selectattr('role', "
    "'equalto', 'user') | list | length }}{{ messages[-1].content }}{{ messages[1:] | length }}"
    "{{ (messages | last).role }}{{ messages | length }}",
    "items": "{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}"
    "{% for k, v in messages[0] | dictsort %}{{ k }}{% endfor %}{{ messages[0] | items | list }}",
    "tokens": "{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ bos_token is defined }}",
    "prompt": "{{ add_generation_prompt }}{{ documents }}{{ enable_thinking }}",
    "set block": "{% set x %}{% for m in messages %}{{ m.role }}{% endfor %}{% endset %}[{{ x }}]",
    "unicode": "{{ '<|é😀\\u2028|>' }}{{ messages[0].content | tojson }}{{ '&<>' | e }}",
    "raised": "{{ raise_exception('No: ' ~ messages[0].role) }}",
    "undefined": "{{ messages[0].nothing.more }}",
    "unsafe": "{{ messages.append(1) }}",
    "hidden": "{{ messages.__class__ }}",
    "none added": "{{ 'a' + none }}",
    "no call": "{{ messages() }}",
}
OURS = {name: text for name, text in vars(templates).items() if name.isupper()}

USER = Message(role="user", text="  Hi <|x|> {{ 1 }}\n there\u2028é ")
SYSTEM = Message(role="system", text="Be brief.\n")
# Without a thought of its own, whose names transformers puts in another order.
ANSWER = Message(role="assistant", text="<think>\nhm\n</think>\n\nOK")
CALLS = (
    ToolCall("abcdefgh1", "get_weather", '{"city": "Zürich <&>", "days": [1, 2.5, null, true]}'),
    ToolCall("abcdefgh2", "get_time", "{}"),
)
CALLING = Message(role="assistant", text=None, tool_calls=CALLS)
RESULTS = (
    Message(role="tool", text='{"degrees": 5}', tool_call_id="abcdefgh1"),
    Message(role="tool", text="noon", tool_call_id="abcdefgh2"),
)
CONVERSATIONS: dict[str, list[Message]] = {
    "question": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, USER],
    "system in the middle": [USER, ANSWER, SYSTEM, USER],
    "two users": [USER, USER],
    "calls": [SYSTEM, USER, CALLING, *RESULTS],
    "calls, answered": [USER, CALLING, *RESULTS, ANSWER, USER],
    "no user": [SYSTEM],
    "answer first": [ANSWER],
}
TOOLS = (
    Tool(
        name="get_weather",
        description="Weather for 'x' \"y\" é",
        parameters={"type": "object", "properties": {"city": {"enum": ["a", "b"]}}},
    ),
    Tool(name="get_time"),
)
FORMS = (
    Form(),
    Form(arguments="text", empty_content="null"),
    Form(content="parts", empty_content="absent", describes_all=True),
)


def theirs(
    text: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    variables: Mapping[str, Any],
) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    rendered = render_jinja_template(
        [list(messages)],
        tools=list(tools) or None,
        chat_template=text,
        add_generation_prompt=True,
        **{**TOKENS, **variables},
    )
    return str(rendered[0][0])


@pytest.mark.parametrize("name", [*OURS, *FEATURES])
def test_it_is_transformers_rendering(name: str) -> None:
    text = {**OURS, **FEATURES}[name]
    template = JinjaTemplate(text, special_tokens=TOKENS)
    cases = itertools.product(
        CONVERSATIONS.values(), [(), TOOLS], [{}, {"enable_thinking": False}], FORMS
    )
    for messages, tools, variables, form in cases:
        written, described = template_messages(messages, form), template_tools(tools, form)
        try:
            expected = theirs(text, written, described, variables)
            problem = ""
        except Exception as error:
            expected, problem = "", str(error)
        if not problem:
            assert template.render(written, tools=described, variables=variables) == expected
            continue
        with pytest.raises(RenderFailed) as caught:
            template.render(written, tools=described, variables=variables)
        # All but one of the words are Jinja's or the template's own.
        assert caught.value.words[:80] in problem or name == "hidden namespace"


def test_the_date_is_written_as_asked() -> None:
    environment = make_environment(lambda: datetime(2026, 2, 3, 14, 5))
    template = JinjaTemplate("{{ strftime_now('%d %B %Y') }}", environment=environment)
    assert template.render([], tools=(), variables={}) == "03 February 2026"
    (today,) = re.findall(
        r"^(\d{4})-",
        JinjaTemplate("{{ strftime_now('%Y-%m') }}").render([], tools=(), variables={}),
    )
    assert int(today) >= 2025


def test_variables_are_the_names_it_reads_from_outside() -> None:
    text = (
        "{% set x = 1 %}{{ enable_thinking is defined }}{{ messages }}{{ x }}{{ raise_exception }}"
    )
    assert JinjaTemplate(text).variables == {"enable_thinking", "messages"}


def test_a_clients_variables_do_not_replace_what_is_ours() -> None:
    text = "{{ messages | length }}{{ tools }}{{ add_generation_prompt }}{{ bos_token }}"
    given = {"messages": [1, 2], "tools": 3, "add_generation_prompt": False, "bos_token": "x"}
    rendered = JinjaTemplate(text, special_tokens=TOKENS).render([], tools=(), variables=given)
    assert rendered == "0NoneTruex"
