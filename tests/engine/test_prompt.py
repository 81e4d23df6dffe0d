"""Messages through real chat templates: every role, and turns that a template would refuse."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from maxi_mlx.core.errors import ContextTooLong, InvalidRequest
from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Message, Role, TextPrompt, ToolCall
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.prompt import PromptBuilder
from maxi_mlx.text.chat_template import ChatTemplates
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
    (built,) = PromptBuilder(model).build(make_request(prompt))
    return model.vocabulary.text(built.token_ids)


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
    (built,) = PromptBuilder(model).build(make_request("Hello"))
    assert built.token_ids.count(model.tokenizer.bos_token_id) == 1


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
    assert caught.value.param == "messages[0]"


def test_a_base_model_says_where_to_go(load_tiny: LoadTiny) -> None:
    model = load_tiny("qwen2")
    habits = replace(model.habits, templates=ChatTemplates({}, model_name="tiny-qwen2"))
    with pytest.raises(InvalidRequest, match="/v1/completions") as caught:
        rendered(replace(model, habits=habits), HELLO)
    assert caught.value.param == "model"


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

    def token_ids(request: GenerateRequest) -> list[int]:
        return builder.build(request)[0].token_ids

    expected = [token_ids(request) for request in requests]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(token_ids, requests)) == expected
