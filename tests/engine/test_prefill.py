"""Answers that are begun, and prompts that are only counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maxi_mlx.core.errors import ContextTooLong, InvalidRequest, ModelNotFound
from maxi_mlx.core.request import ChatPrompt, Message, TokenPrompt
from maxi_mlx.engine.engine import Engine
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.prompt import PromptBuilder
from maxi_mlx.text.chat_template import ChatTemplates
from maxi_mlx.text.reasoning import find_reasoning_format
from tests.engine.asking import make_request
from tests.engine.conftest import LoadTiny

HELLO = Message(role="user", text="Hello")
BEGUN = ChatPrompt(messages=(HELLO,), prefill="The answer (")
OPEN_THOUGHT = "{{ messages[0].content }}<|im_start|>assistant\n<think>\n"


def text_of(model: LanguageModel, prompt: ChatPrompt) -> str:
    [built] = PromptBuilder(model).build(make_request(prompt))
    return model.vocabulary.text(built.token_ids)


def with_template(model: LanguageModel, template: str, **changes: object) -> LanguageModel:
    templates = ChatTemplates.from_files({"chat_template.jinja": template}, model_name="m")
    return replace(model, habits=replace(model.habits, templates=templates, **changes))


def test_an_answer_goes_on_from_its_beginning(load_tiny: LoadTiny) -> None:
    model = load_tiny("qwen3")
    plain = text_of(model, replace(BEGUN, prefill=None))
    assert text_of(model, BEGUN) == plain + "The answer ("


def test_a_beginning_comes_after_the_thought(load_tiny: LoadTiny) -> None:
    model = with_template(load_tiny("qwen3"), OPEN_THOUGHT)
    assert text_of(model, BEGUN).endswith("<think>\n</think>\n\nThe answer (")
    [built] = PromptBuilder(model).build(make_request(BEGUN))
    assert not built.plan.thought_is_open


def test_an_answer_in_channels_can_not_be_begun(load_tiny: LoadTiny) -> None:
    channels = find_reasoning_format(None, {"<|channel|>", "<|message|>", "<|end|>"})
    assert channels is not None
    assert channels.channels is not None
    model = with_template(load_tiny("qwen3"), "{{ messages[0].content }}", reasoning=channels)
    with pytest.raises(InvalidRequest, match="beginning of an answer") as caught:
        text_of(model, BEGUN)
    assert caught.value.param == "messages"


def test_a_count_is_what_would_be_read(load_tiny: LoadTiny) -> None:
    model = load_tiny("qwen3")
    builder = PromptBuilder(model)
    request = make_request(BEGUN)
    [built] = builder.build(request)
    assert builder.count(request) == len(built.token_ids)
    pair = replace(request, prompts=(TokenPrompt((1, 2, 3)), TokenPrompt((4,))))
    assert builder.count(pair) == 4


def test_a_count_may_be_more_than_the_context(load_tiny: LoadTiny) -> None:
    model = load_tiny("qwen3")
    builder = PromptBuilder(model)
    request = make_request(TokenPrompt((5,) * (model.context_length + 9)))
    assert builder.count(request) == model.context_length + 9
    with pytest.raises(ContextTooLong) as caught:
        builder.build(request)
    assert caught.value.prompt_tokens == model.context_length + 9
    assert caught.value.context_tokens == model.context_length


async def test_the_engine_counts_without_a_row(engine: Engine) -> None:
    request = replace(make_request(BEGUN), model="tiny-qwen3")
    number = await engine.count_tokens(request)
    events = [event async for event in engine.generate(request)]
    assert events[0].prompt_tokens == number  # type: ignore[union-attr]
    with pytest.raises(ModelNotFound):
        await engine.count_tokens(replace(request, model="nobody"))
