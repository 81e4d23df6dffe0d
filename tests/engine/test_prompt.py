"""Messages through real chat templates: every role, and turns that a template would refuse."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from maxi_mlx.core.errors import ContextTooLong, InvalidRequest
from maxi_mlx.core.request import ChatPrompt, Message, Role, TextPrompt, ToolCall
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.prompt import PromptBuilder, fold_system, merge_turns, template_message
from tests.engine.asking import make_request
from tests.engine.conftest import LoadTiny


def message(role: Role, text: str | None, **changes: Any) -> Message:
    return Message(role=role, text=text, **changes)


SYSTEM = message("system", "Be brief.")
HELLO = message("user", "Hello")
HI = message("assistant", "Hi")


def rendered(model: LanguageModel, *messages: Message, **template_kwargs: Any) -> str:
    """The prompt's text, as the tokens that the model would read say it."""
    prompt = ChatPrompt(messages=messages, template_kwargs=template_kwargs)
    (ids,) = PromptBuilder(model).build(make_request(prompt))
    return model.vocabulary.text(ids)


def test_a_plain_chat(load_tiny: LoadTiny) -> None:
    text = rendered(load_tiny("qwen2"), SYSTEM, HELLO, HI, message("user", "Bye"))
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHello<|im_end|>\n"
        "<|im_start|>assistant\nHi<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_the_beginning_token_is_not_doubled(load_tiny: LoadTiny) -> None:
    model = load_tiny("llama")
    (ids,) = PromptBuilder(model).build(make_request("Hello"))
    beginning = model.tokenizer.bos_token_id
    assert ids.count(beginning) <= 1


def test_point_31_system_messages_anywhere_reach_a_strict_template(load_tiny: LoadTiny) -> None:
    later = message("system", "And kind.")
    text = rendered(load_tiny("gemma3"), SYSTEM, HELLO, HI, later, message("user", "Bye"))
    for part in ("Be brief.", "And kind.", "Hello", "Hi", "Bye"):
        assert text.count(part) == 1
    assert text.index("And kind.") < text.index("Hello")


def test_two_user_turns_are_joined_where_a_template_wants_one(load_tiny: LoadTiny) -> None:
    text = rendered(load_tiny("gemma3"), HELLO, message("user", "Anyone there?"))
    assert "Hello\n\nAnyone there?" in text


def test_messages_no_template_takes_are_a_400_with_the_templates_words(load_tiny: LoadTiny) -> None:
    with pytest.raises(InvalidRequest, match="chat template of tiny-gemma3") as caught:
        rendered(load_tiny("gemma3"), HI, HI)
    assert caught.value.param == "messages"


def test_a_base_model_says_where_to_go(load_tiny: LoadTiny) -> None:
    model = load_tiny("qwen2")

    class NoTemplate:
        has_chat_template = False

    with pytest.raises(InvalidRequest, match="/v1/completions"):
        rendered(replace(model, tokenizer=NoTemplate()), HELLO)


def test_template_kwargs_reach_the_template(load_tiny: LoadTiny) -> None:
    model = load_tiny("qwen3")
    plain = rendered(model, HELLO)
    assert rendered(model, HELLO, enable_thinking=False) != plain


CALL = ToolCall("call_1", "get_weather", '{"city": "Oslo"}')


def test_calls_and_their_results_reach_the_template(load_tiny: LoadTiny) -> None:
    text = rendered(
        load_tiny("qwen3"),
        HELLO,
        message("assistant", None, tool_calls=(CALL,)),
        message("tool", "Rain.", tool_call_id="call_1"),
    )
    assert "get_weather" in text
    assert '"city": "Oslo"' in text
    assert "Rain." in text


def test_arguments_are_an_object_or_else_the_text_they_were() -> None:
    wire = template_message(message("assistant", None, tool_calls=(CALL,)))
    assert wire["tool_calls"][0]["function"]["arguments"] == {"city": "Oslo"}
    broken = ToolCall("call_1", "f", "{")
    wire = template_message(message("assistant", None, tool_calls=(broken,)))
    assert wire["tool_calls"][0]["function"]["arguments"] == "{"


def test_thoughts_are_handed_to_templates_that_know_them() -> None:
    wire = template_message(message("assistant", "Hi", reasoning="They greet me."))
    assert wire == {"role": "assistant", "content": "Hi", "reasoning_content": "They greet me."}


def test_joined_turns_keep_their_thoughts_and_names() -> None:
    ann, bob = message("user", "Hi", name="Ann"), message("user", "Ho", name="Bob")
    assert merge_turns([ann, bob]) == [ann, bob]
    thought = message("assistant", "Hi", reasoning="They greet.")
    more = message("assistant", "Well?", reasoning="They wait.")
    assert merge_turns([HELLO, thought, more]) == [
        HELLO,
        message("assistant", "Hi\n\nWell?", reasoning="They greet.\n\nThey wait."),
    ]


@pytest.mark.parametrize(
    ("prompt", "param"),
    [(ChatPrompt(messages=(message("user", "word " * 600),)), "messages"), ([10] * 600, "prompt")],
)
def test_a_prompt_that_is_too_long_names_its_field(
    prompt: Any, param: str, load_tiny: LoadTiny
) -> None:
    with pytest.raises(ContextTooLong) as caught:
        PromptBuilder(load_tiny("llama")).build(make_request(prompt))
    assert caught.value.param == param


def test_prompts_are_cut_into_tokens_from_many_threads_at_once(load_tiny: LoadTiny) -> None:
    """transformers sets the tokenizer up anew for each call; two at once would panic."""
    builder = PromptBuilder(load_tiny("qwen2"))
    requests = [make_request(TextPrompt("one two three " * (1 + i % 7))) for i in range(60)]
    expected = [builder.build(request) for request in requests]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(builder.build, requests)) == expected


def test_merging_keeps_calls_apart() -> None:
    calling = message("assistant", "Let me see.", tool_calls=(CALL,))
    merged = merge_turns([HELLO, HI, calling, SYSTEM])
    assert merged == [SYSTEM, HELLO, HI, calling]


def test_a_system_text_without_a_user_becomes_one() -> None:
    assert fold_system([SYSTEM]) == [message("user", "Be brief.")]
    assert fold_system([SYSTEM, HELLO]) == [message("user", "Be brief.\n\nHello")]
    assert fold_system([HELLO]) == [HELLO]


def test_many_turns_are_joined_in_a_moment() -> None:
    turns = [HELLO] * 200_000
    started = time.perf_counter()
    (joined,) = merge_turns(turns)
    assert time.perf_counter() - started < 5
    assert joined.text is not None
    assert joined.text.count("Hello") == 200_000
