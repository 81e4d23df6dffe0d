"""Whole templates of several families' ways: what they are found to do, and what they are given."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import ChatPrompt, Message, Role, Tool, ToolCall
from maxi_mlx.text.chat_template import (
    Abilities,
    ChatTemplates,
    FunctionTemplate,
    JinjaTemplate,
    find_abilities,
)
from maxi_mlx.text.chat_template.forms import Form
from maxi_mlx.text.chat_template.limits import Limits
from tests.models.templates import CHATML, CHATML_WITH_TOOLS, TURNS


def message(role: Role, text: str | None, **changes: Any) -> Message:
    return Message(role=role, text=text, **changes)


SYSTEM, LATER = message("system", "Be brief."), message("system", "And kind.")
HELLO, BYE = message("user", "Hello"), message("user", "Bye")
HI = message("assistant", "Hi")
ONE = ToolCall("call_1", "get_weather", '{"city": "Oslo"}')
TWO = ToolCall("call_2", "get_time", "{}")
RAIN = message("tool", "Rain.", tool_call_id="call_1")
NOON = message("tool", "Noon.", tool_call_id="call_2")
WEATHER = Tool(name="get_weather", description="The weather.")


def calling(*calls: ToolCall) -> Message:
    return message("assistant", None, tool_calls=calls)


EACH = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"


def calls(arguments: str) -> str:
    call = "<{{ c.id }}:{{ c.function.name }}:" + arguments + ">"
    return "{% for c in m.tool_calls or [] %}" + call + "{% endfor %}"


def talk(after: str) -> str:
    turn = "[{{ m.role }}:{{ m.content }}" + after + "]"
    return "{{ tools | tojson if tools }}{% for m in messages %}" + turn + "{% endfor %}"


AS_JSON = calls("{{ c.function.arguments | tojson }}")

# Ways in which families differ, each as short as it can be.
TEXT_ARGUMENTS = talk(calls("{{ 'json' + c.function.arguments }}"))
PRINTED_ARGUMENTS = talk(calls("{{ c.function.arguments }}"))
NULL_CONTENT = (
    "{% for m in messages %}{% if m.role == 'assistant' and m.content is none %}"
    + AS_JSON
    + "{% else %}[{{ m.content }}]{% endif %}{% endfor %}"
)
SHORT_IDS = talk(
    "{% for c in m.tool_calls or [] if c.id | length != 9 %}{{ raise_exception('nine!') }}"
    "{% endfor %}" + AS_JSON
)
ONE_CALL = talk(
    "{% if (m.tool_calls or []) | length > 1 %}{{ raise_exception('one!') }}{% endif %}" + AS_JSON
)
PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
DESCRIBED = (
    "{% for t in tools or [] %}{{ '# ' + t.function.description }}{{ t.function.name }}"
    "{% endfor %}" + EACH
)
ONLY_RESULTS = "{{ tools | tojson if tools }}" + EACH  # calls are left out, results shown
XML_TOOLS = "{% for t in xml_tools or [] %}<{{ t.name }}>{% endfor %}" + EACH
THOUGHTS = "{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}"
SWITCH = EACH + "{{ 'on' if thinking else 'off' }}{{ reasoning_effort }}"
LEADING_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System first.') }}{% endif %}[{{ m.content }}]{% endfor %}"
)
NEEDS_USER = (
    "{% if not messages | selectattr('role', 'equalto', 'user') | list %}"
    "{{ raise_exception('No user.') }}{% endif %}" + EACH
)

ABILITIES: dict[str, tuple[str, Abilities]] = {
    "chatml": (CHATML, Abilities(results=True)),
    "chatml with tools": (
        CHATML_WITH_TOOLS,
        Abilities(
            tools=True,
            calls=True,
            parallel_calls=True,
            results=True,
            thinking_switch="enable_thinking",
        ),
    ),
    "turns": (TURNS, Abilities(later_system=False, repeated_turns=False)),
    "text arguments": (
        TEXT_ARGUMENTS,
        Abilities(
            tools=True,
            calls=True,
            parallel_calls=True,
            results=True,
            form=Form(arguments="text"),
        ),
    ),
    "printed arguments": (
        PRINTED_ARGUMENTS,
        Abilities(
            tools=True,
            calls=True,
            parallel_calls=True,
            results=True,
            form=Form(arguments="text"),
        ),
    ),
    "null content": (
        NULL_CONTENT,
        Abilities(calls=True, parallel_calls=True, results=True, form=Form(empty_content="null")),
    ),
    "short ids": (
        SHORT_IDS,
        Abilities(
            tools=True, calls=True, parallel_calls=True, results=True, form=Form(short_ids=True)
        ),
    ),
    "one call": (ONE_CALL, Abilities(tools=True, calls=True, results=True)),
    "parts": (PARTS, Abilities(results=True, form=Form(content="parts"))),
    "described": (
        DESCRIBED,
        Abilities(tools=True, results=True, form=Form(describes_all=True)),
    ),
    "only results": (ONLY_RESULTS, Abilities(tools=True, results=True)),
    "xml tools": (
        XML_TOOLS,
        Abilities(tools=True, results=True, form=Form(tools_name="xml_tools")),
    ),
    "thoughts": (THOUGHTS, Abilities(results=True, past_reasoning=True)),
    "switch": (
        SWITCH,
        Abilities(results=True, thinking_switch="thinking", reasoning_effort=True),
    ),
    "leading system": (LEADING_SYSTEM, Abilities(later_system=False, results=True)),
    "says nothing": (
        "{{ raise_exception('No.') }}",
        Abilities(system=False, later_system=False, repeated_turns=False),
    ),
}


@pytest.mark.parametrize("name", ABILITIES)
def test_abilities(name: str) -> None:
    text, abilities = ABILITIES[name]
    assert find_abilities(JinjaTemplate(text, special_tokens={"bos_token": "<s>"})) == abilities


def tool_prompt(tools: Sequence[Tool]) -> str:
    return "You may call " + ", ".join(tool.name for tool in tools) + "."


def rendered(
    template: str, *messages: Message, tools: Sequence[Tool] = (), **variables: Any
) -> str:
    files = {"chat_template.jinja": template}
    templates = ChatTemplates.from_files(files, model_name="tiny", tool_prompt=tool_prompt)
    return templates.render(
        ChatPrompt(messages=messages, tools=tuple(tools), template_kwargs=variables)
    )


RENDERINGS: dict[str, tuple[str, list[Message], list[Tool], str]] = {
    "as they are": (EACH, [HELLO, LATER, HELLO], [], "[user:Hello][system:And kind.][user:Hello]"),
    "a strict system": (
        LEADING_SYSTEM,
        [SYSTEM, HELLO, LATER, BYE],
        [],
        "[Be brief.\n\nAnd kind.][Hello][Bye]",
    ),
    "strict turns": (
        TURNS,
        [SYSTEM, HELLO, BYE],
        [],
        "<start_of_turn>user\nBe brief.\n\nHello\n\nBye<end_of_turn>\n<start_of_turn>model\n",
    ),
    "no user": (NEEDS_USER, [SYSTEM], [], "[user:Be brief.]"),
    "text arguments": (
        TEXT_ARGUMENTS,
        [HELLO, calling(ONE), RAIN],
        [],
        '[user:Hello][assistant:<call_1:get_weather:json{"city": "Oslo"}>][tool:Rain.]',
    ),
    "one call a turn": (
        ONE_CALL,
        [calling(ONE, TWO), RAIN, NOON],
        [],
        '[assistant:<call_1:get_weather:{"city": "Oslo"}>][tool:Rain.]'
        "[assistant:<call_2:get_time:{}>][tool:Noon.]",
    ),
    "calls told in words": (
        ONLY_RESULTS,
        [HELLO, calling(TWO), NOON],
        [],
        '[user:Hello][assistant:<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>]'
        "[tool:Noon.]",
    ),
    "tools told in words": (
        EACH,
        [HELLO],
        [WEATHER],
        "[system:You may call get_weather.][user:Hello]",
    ),
    "tools told to a strict template": (
        TURNS,
        [HELLO, calling(TWO), NOON],
        [WEATHER],
        "<start_of_turn>user\nYou may call get_weather.\n\nHello<end_of_turn>\n"
        '<start_of_turn>model\n<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
        "<end_of_turn>\n<start_of_turn>user\n<tool_response>\nNoon.\n</tool_response>"
        "<end_of_turn>\n<start_of_turn>model\n",
    ),
    "tools under their own name": (XML_TOOLS, [HELLO], [WEATHER], "<get_weather>[user:Hello]"),
    "parts": (PARTS, [HELLO, BYE], [], "HelloBye"),
    "a tool without words": (
        DESCRIBED,
        [HELLO],
        [Tool(name="f")],
        "# f[user:Hello]",
    ),
}


@pytest.mark.parametrize("name", RENDERINGS)
def test_renderings(name: str) -> None:
    template, messages, tools, expected = RENDERINGS[name]
    assert rendered(template, *messages, tools=tools) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"enable_thinking": True}, "[user:Hello]on"),
        ({"enable_thinking": True, "thinking": False}, "[user:Hello]off"),
        ({"reasoning_effort": "low"}, "[user:Hello]offlow"),
    ],
    ids=str,
)
def test_the_switch_has_the_templates_own_name(variables: dict[str, Any], expected: str) -> None:
    assert rendered(SWITCH, HELLO, **variables) == expected


BAD_ROLE = "\n".join(
    [
        "{% for m in messages %}",
        "{% if m.content == 'bad' %}{{ raise_exception('Not this.') }}{% endif %}",
        "{{ m.content }}",
        "{% endfor %}",
    ]
)


@pytest.mark.parametrize("place", [0, 1, 5, 8, 9])
def test_a_refusal_names_the_line_and_the_message(place: int) -> None:
    turns = [HELLO, HI] * 5
    turns[place] = message(turns[place].role, "bad")
    with pytest.raises(InvalidRequest) as caught:
        rendered(BAD_ROLE, *turns)
    assert caught.value.param == f"messages[{place}]"
    assert caught.value.message == (
        "The chat template of tiny does not take these messages: Not this. "
        f"(in the template, line 2). It stops at messages[{place}]."
    )


def test_a_refusal_of_everything_is_the_first_messages() -> None:
    with pytest.raises(InvalidRequest, match="No!") as caught:
        rendered("{{ raise_exception('No!') }}", HELLO, HI, BYE)
    assert caught.value.param == "messages[0]"


def test_a_template_that_takes_too_long_is_tried_once() -> None:
    loop = "{% for i in range(99999) %}"
    text = f"\n{loop}{loop}{{% endfor %}}{{% endfor %}}"
    began_s = time.thread_time()
    template = JinjaTemplate(text, limits=Limits(time_s=0.1))
    templates = ChatTemplates({"default": template}, model_name="tiny")
    with pytest.raises(InvalidRequest, match=r"more than 0.1 seconds.*line 2") as caught:
        templates.render(ChatPrompt(messages=(HELLO, HI, BYE)))
    assert caught.value.param == "messages"
    assert time.thread_time() - began_s < 1


def test_a_model_without_a_template_says_where_to_go() -> None:
    templates = ChatTemplates.from_files({}, model_name="base", tool_prompt=tool_prompt)
    assert not templates
    with pytest.raises(InvalidRequest, match=r"base has no chat template.*/v1/completions"):
        templates.render(ChatPrompt(messages=(HELLO,)))


def test_generic_tools_are_known() -> None:
    for template, is_generic in ((CHATML, True), (CHATML_WITH_TOOLS, False)):
        templates = ChatTemplates.from_files(
            {"chat_template.jinja": template}, model_name="tiny", tool_prompt=tool_prompt
        )
        assert templates.uses_generic_tools(ChatPrompt(messages=(HELLO,), tools=(WEATHER,))) is (
            is_generic
        )
        assert not templates.uses_generic_tools(ChatPrompt(messages=(HELLO,)))


def test_a_template_for_tools_is_taken_where_there_are_tools() -> None:
    config = {
        "chat_template": [
            {"name": "default", "template": "plain"},
            {"name": "tool_use", "template": "{{ tools[0].function.name }}" + EACH},
        ]
    }
    files = {"tokenizer_config.json": json.dumps(config)}
    templates = ChatTemplates.from_files(files, model_name="tiny", tool_prompt=tool_prompt)
    assert templates.render(ChatPrompt(messages=(HELLO,))) == "plain"
    with_tools = ChatPrompt(messages=(SYSTEM, HELLO, HELLO), tools=(WEATHER,))
    assert templates.render(with_tools) == ("get_weather[system:Be brief.][user:Hello][user:Hello]")


def test_a_broken_template_is_said_at_load() -> None:
    with pytest.raises(InvalidRequest, match="chat template has a syntax error in line 2"):
        ChatTemplates.from_files(
            {"chat_template.jinja": "a\n{% endfor %}"}, model_name="tiny", tool_prompt=tool_prompt
        )


def test_a_function_is_a_template_too() -> None:
    def function(messages: Any, *, tools: Any, tokenize: bool, **names: Any) -> str:
        assert not tokenize
        assert names.pop("add_generation_prompt")
        if any(turn["content"] == "bad" for turn in messages):
            raise ValueError("Not this.")
        return f"{[turn['content'] for turn in messages]}{names}"

    template = FunctionTemplate(function, variables=frozenset({"enable_thinking"}))
    templates = ChatTemplates({"default": template}, model_name="tiny", tool_prompt=tool_prompt)
    prompt = ChatPrompt(messages=(HELLO,), template_kwargs={"enable_thinking": False})
    assert templates.render(prompt) == "['Hello']{'enable_thinking': False}"
    with pytest.raises(InvalidRequest, match="Not this"):
        templates.render(ChatPrompt(messages=(message("user", "bad"),)))
