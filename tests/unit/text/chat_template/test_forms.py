"""Messages and tools as templates read them, and conversations made over for strict templates."""

from __future__ import annotations

import time
from typing import Any

import pytest

from maxi_mlx.core.request import Message, Role, Tool, ToolCall
from maxi_mlx.text.chat_template.arrangement import (
    calls_as_text,
    fold_system,
    merge_turns,
    split_calls,
    system_in_front,
    with_system,
)
from maxi_mlx.text.chat_template.forms import (
    Form,
    short_id,
    template_messages,
    template_tool,
    tool_variables,
)


def message(role: Role, text: str | None, **changes: Any) -> Message:
    return Message(role=role, text=text, **changes)


SYSTEM, LATER = message("system", "Be brief."), message("system", "And kind.")
HELLO, BYE = message("user", "Hello"), message("user", "Bye")
HI = message("assistant", "Hi")
ONE = ToolCall("call_1", "get_weather", '{"city": "Oslo"}')
TWO = ToolCall("call_2", "get_time", "{}")
RAIN = message("tool", "Rain.", tool_call_id="call_1")
NOON = message("tool", "Noon.", tool_call_id="call_2")


def calling(*calls: ToolCall, text: str | None = None) -> Message:
    return message("assistant", text, tool_calls=calls)


def written(*messages: Message, **form: Any) -> list[dict[str, Any]]:
    return template_messages(messages, Form(**form))


def test_plain_turns() -> None:
    assert written(SYSTEM, message("user", "Hello", name="Ann")) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello", "name": "Ann"},
    ]


def test_calls_and_results_keep_their_ids_and_results_get_names() -> None:
    assert written(calling(ONE), RAIN) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": {"city": "Oslo"}},
                }
            ],
        },
        {"role": "tool", "content": "Rain.", "name": "get_weather", "tool_call_id": "call_1"},
    ]


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ('{"city": "Oslo"}', "object", {"city": "Oslo"}),
        ('{"city": "Oslo"}', "text", '{"city": "Oslo"}'),
        ("{", "object", "{"),
        ("", "object", {}),
        ("[" * 100_000, "object", "[" * 100_000),
        ("5", "object", 5),
    ],
    ids=lambda value: str(value)[:20],
)
def test_arguments_are_an_object_or_else_the_text_they_were(
    text: str, form: Any, expected: Any
) -> None:
    (turn,) = written(calling(ToolCall("i", "f", text)), arguments=form)
    assert turn["tool_calls"][0]["function"]["arguments"] == expected


@pytest.mark.parametrize(
    ("form", "expected"), [("text", {"content": ""}), ("null", {"content": None}), ("absent", {})]
)
def test_the_content_of_a_turn_of_calls(form: Any, expected: dict[str, Any]) -> None:
    (turn,) = written(calling(ONE), empty_content=form)
    assert {key: value for key, value in turn.items() if key == "content"} == expected
    (spoken,) = written(calling(ONE, text="See:"), empty_content=form)
    assert spoken["content"] == "See:"


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": "Hello"}]
    assert written(HELLO, content="parts") == [{"role": "user", "content": parts}]


def test_thoughts_have_the_names_that_templates_read() -> None:
    (turn,) = written(message("assistant", "Hi", reasoning="They greet."))
    assert turn["reasoning_content"] == turn["thinking"] == "They greet."


def test_short_ids_are_the_same_for_a_call_and_its_result() -> None:
    turn, result = written(calling(ONE), RAIN, short_ids=True)
    call_id = turn["tool_calls"][0]["id"]
    assert result["tool_call_id"] == call_id == short_id("call_1")
    assert len(call_id) == 9
    assert call_id.isalnum()
    assert short_id("abcDEF123") == "abcDEF123"
    assert short_id("abcDEF12é") != "abcDEF12é"
    assert len({short_id(f"call_{number}") for number in range(5000)}) == 5000


def test_ids_that_were_left_out_are_filled_in_by_order_or_name() -> None:
    calls = calling(ToolCall("", "a", "{}"), ToolCall("", "b", "{}"))
    turn, first, second = written(calls, message("tool", "A"), message("tool", "B"))
    ids = [call["id"] for call in turn["tool_calls"]]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids
    assert (first["name"], second["name"]) == ("a", "b")
    turn, named = written(calls, message("tool", "B", name="b"))
    assert named["tool_call_id"] == turn["tool_calls"][1]["id"]
    (alone,) = written(message("tool", "?"))
    assert alone == {"role": "tool", "content": "?"}


def test_tools() -> None:
    empty = {"type": "object", "properties": {}}
    plain = {"type": "function", "function": {"name": "f", "parameters": empty}}
    assert template_tool(Tool(name="f"), Form()) == plain
    described = template_tool(Tool(name="f"), Form(describes_all=True))
    assert described["function"] == {"name": "f", "description": "", "parameters": empty}
    schema = {"properties": {"b": {}, "a": {}}, "required": ["b"]}
    full = template_tool(Tool(name="f", description="d", parameters=schema, strict=True), Form())
    assert full["function"] == {
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", **schema},
    }
    assert tool_variables([Tool(name="f")], Form()) == {}
    assert tool_variables([Tool(name="f")], Form(tools_name="xml_tools")) == {
        "xml_tools": [plain["function"]]
    }


# -- arrangements ------------------------------------------------------------------------------


def test_system_texts_go_to_the_front() -> None:
    together = message("system", "Be brief.\n\nAnd kind.")
    assert system_in_front([SYSTEM, HELLO, LATER, HI]) == [together, HELLO, HI]
    assert merge_turns([SYSTEM, HELLO, LATER, HI]) == [together, HELLO, HI]
    assert system_in_front([HELLO]) == [HELLO]


def test_turns_of_one_role_are_joined_with_thoughts_and_names() -> None:
    ann, bob = message("user", "Hi", name="Ann"), message("user", "Ho", name="Bob")
    assert merge_turns([ann, bob]) == [ann, bob]
    thought = message("assistant", "Hi", reasoning="They greet.")
    more = message("assistant", "Well?", reasoning="They wait.")
    assert merge_turns([HELLO, BYE, thought, more]) == [
        message("user", "Hello\n\nBye"),
        message("assistant", "Hi\n\nWell?", reasoning="They greet.\n\nThey wait."),
    ]


def test_merging_keeps_calls_and_results_apart() -> None:
    turns = [HELLO, HI, calling(ONE, TWO, text="Let me see."), RAIN, NOON]
    assert merge_turns(turns) == turns


def test_a_system_text_without_a_user_becomes_one() -> None:
    assert fold_system([SYSTEM]) == [message("user", "Be brief.")]
    assert fold_system([SYSTEM, HELLO]) == [message("user", "Be brief.\n\nHello")]
    ann = message("user", "Hello", name="Ann")
    assert fold_system([SYSTEM, ann]) == [message("user", "Be brief.\n\nHello", name="Ann")]
    assert fold_system([HELLO]) == [HELLO]


def test_calls_are_split_with_their_results() -> None:
    spoken = message("assistant", "See:", tool_calls=(ONE, TWO), reasoning="Hm.")
    first = message("assistant", "See:", tool_calls=(ONE,), reasoning="Hm.")
    assert split_calls([HELLO, spoken, NOON, RAIN, HI]) == [
        *(HELLO, first, RAIN, calling(TWO), NOON, HI)
    ]
    unnamed = [message("tool", "Rain."), message("tool", "Noon."), message("tool", "?")]
    assert split_calls([calling(ONE, TWO), *unnamed]) == [
        *(calling(ONE), unnamed[0], calling(TWO), unnamed[1], unnamed[2])
    ]
    assert split_calls([calling(ONE, TWO), RAIN, RAIN]) == [calling(ONE), RAIN, calling(TWO), RAIN]


def test_calls_and_results_as_text() -> None:
    turns = [HELLO, calling(ONE, TWO, text="See:"), RAIN, NOON, HI]
    told = (
        'See:\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
    )
    results = "<tool_response>\nRain.\n</tool_response>\n<tool_response>\nNoon.\n</tool_response>"
    assert calls_as_text(turns) == [
        *(HELLO, message("assistant", told), message("user", results), HI)
    ]
    kept = calls_as_text(turns, keep_results=True)
    assert kept == [HELLO, message("assistant", told), RAIN, NOON, HI]


def test_a_text_joins_the_system_message() -> None:
    assert with_system([SYSTEM, HELLO], "More.") == [
        message("system", "Be brief.\n\nMore."),
        HELLO,
    ]
    assert with_system([HELLO, SYSTEM], "More.") == [message("system", "More."), HELLO, SYSTEM]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("turns", "arrange"),
    [
        ([HELLO] * 100_000, merge_turns),
        ([calling(*[ONE] * 50_000), *[RAIN] * 50_000], split_calls),
        ([calling(ONE), RAIN] * 50_000, calls_as_text),
        ([calling(*[ONE] * 50_000), *[RAIN] * 50_000], calls_as_text),
    ],
    ids=["turns", "split", "told", "told at once"],
)
def test_many_messages_take_a_moment(turns: list[Message], arrange: Any) -> None:
    began_s = time.thread_time()
    assert arrange(turns)
    assert time.thread_time() - began_s < 6
