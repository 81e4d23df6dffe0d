"""What the owner says of a model is the model's own default, and a request's word wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.model_settings import ModelSettings
from maxi_mlx.core.request import NO_LIMIT, ChatPrompt, Message, SamplingParams, Tool
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.admission import fill_in_defaults
from maxi_mlx.engine.cache_form import CacheForm
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.prompt import PromptBuilder
from tests.engine.asking import ask, make_request
from tests.engine.conftest import entry_for, load_language_model, make_engine
from tests.models import build_model
from tests.models.adapter import build_adapter, tokens_by_mlx_lm

PROMPT = [20, 30, 40]
HELLO = Message(role="user", text="Hello")

TinyModel = Callable[[str], Path]


def loaded(folder: Path, **settings: Any) -> LanguageModel:
    entry = entry_for(folder, settings=ModelSettings(**settings))
    return load_language_model(entry, CacheForm())


def rendered(model: LanguageModel, *messages: Message, tools: Sequence[Tool] = ()) -> str:
    prompt = ChatPrompt(messages=messages, tools=tuple(tools))
    [built] = PromptBuilder(model).build(make_request(prompt))
    return model.vocabulary.text(built.token_ids)


def test_sampling_goes_over_the_authors_and_under_the_requests(tmp_path: Path) -> None:
    authors = {"temperature": 0.3, "top_k": 20, "top_p": 0.5}
    folder = build_model(tmp_path / "m", "llama", generation_config=authors)
    model = loaded(folder, sampling=(("temperature", 0.7), ("presence_penalty", 1.5)))
    filled = fill_in_defaults(SamplingParams(top_p=0.9), model)
    assert (filled.temperature, filled.top_k, filled.top_p) == (0.7, 20, 0.9)
    assert (filled.presence_penalty, filled.frequency_penalty) == (1.5, 0.0)
    said = fill_in_defaults(SamplingParams(temperature=0.0, presence_penalty=0.0), model)
    assert (said.temperature, said.presence_penalty) == (0.0, 0.0)


def test_a_system_prompt_where_the_conversation_has_none(tiny_model: TinyModel) -> None:
    model = loaded(tiny_model("qwen2"), system="Be brief.")
    assert rendered(model, HELLO).startswith("<|im_start|>system\nBe brief.<|im_end|>\n")
    own = Message(role="system", text="Be long.")
    assert "Be brief." not in rendered(model, own, HELLO)
    # Also through a template that knows no system messages.
    assert "Be brief." in rendered(loaded(tiny_model("gemma3"), system="Be brief."), HELLO)


def test_a_chat_template_and_a_parser_of_the_owners(tiny_model: TinyModel, tmp_path: Path) -> None:
    template = tmp_path / "own.jinja"
    template.write_text("{{ tools | tojson if tools }}[{{ messages[0].content }}]")
    model = loaded(tiny_model("qwen3"), chat_template=template, tool_parser="glm47")
    assert rendered(model, HELLO) == "[Hello]"
    assert model.habits.tool_syntax is not None
    assert model.habits.tool_syntax.name == "glm47"
    prompt = ChatPrompt(messages=(HELLO,), tools=(Tool(name="f"),))
    assert model.habits.syntax_for(prompt).name == "glm47"


async def test_an_alias_its_limits_and_how_long_it_stays(tiny_model: TinyModel) -> None:
    own = ModelSettings(
        aliases=("gpt-4o",),
        max_tokens=5,
        keep_alive_s=77.0,
        context_tokens=64,
        sampling=(("temperature", 0.0),),
    )
    settings = Settings(models={"tiny-llama": own, "tiny-qwen3": ModelSettings(is_pinned=True)})
    async with make_engine([tiny_model("llama"), tiny_model("qwen3")], settings) as engine:
        await engine.wait_ready()
        assert [(m.id, m.is_pinned) for m in engine.status().loaded] == [("tiny-qwen3", True)]
        request = make_request(
            PROMPT, model="gpt-4o", max_tokens=None, sampling=SamplingParams(seed=1)
        )
        reply = await ask(engine, request)
        assert reply.usage is not None
        assert reply.usage.completion_tokens == 5
        said = await ask(engine, make_request(PROMPT, model="gpt-4o", max_tokens=NO_LIMIT))
        assert said.usage is not None
        assert said.usage.completion_tokens == 64 - len(PROMPT)
        assert said.text.startswith(reply.text)  # greedy by the owner's word
        [model] = [m for m in engine.status().loaded if m.id == "tiny-llama"]
        assert model.context_length == 64
        assert model.expires_in_s == pytest.approx(77.0, abs=5)


async def test_forever_beats_the_servers_keep_alive(tiny_model: TinyModel) -> None:
    own = {"tiny-llama": ModelSettings(keep_alive_s=math.inf)}
    async with make_engine([tiny_model("llama")], Settings(models=own, keep_alive_s=0.0)) as engine:
        await ask(engine, make_request(PROMPT))
        assert [m.expires_in_s for m in engine.status().loaded] == [None]


@pytest.mark.parametrize("kind", ["lora", "dora", "full"])
async def test_an_adapter_that_is_always_applied(
    tiny_model: TinyModel, tmp_path: Path, kind: str
) -> None:
    base = tiny_model("llama")
    adapter = build_adapter(tmp_path / "poet", base, kind=kind)
    expected = tokens_by_mlx_lm(base, adapter, prompt=PROMPT)
    assert expected != tokens_by_mlx_lm(base, None, prompt=PROMPT)
    own = {"tiny-llama": ModelSettings(adapter=adapter)}
    async with make_engine([base], Settings(models=own)) as engine:
        reply = await ask(engine, make_request(PROMPT, top_logprobs=0))
        assert [token.token_id for token in reply.tokens[0]] == expected
        [model] = engine.status().loaded
        num_bytes = (adapter / "adapters.safetensors").stat().st_size
        assert model.weight_bytes > num_bytes / 2


async def test_an_adapter_of_another_model_is_told(tiny_model: TinyModel, tmp_path: Path) -> None:
    adapter = build_adapter(tmp_path / "poet", tiny_model("qwen3_5"))
    own = {"tiny-llama": ModelSettings(adapter=adapter)}
    async with make_engine([tiny_model("llama")], Settings(models=own)) as engine:
        with pytest.raises(InvalidRequest) as caught:
            await ask(engine, make_request(PROMPT))
    assert caught.value.message.startswith("The adapter poet (")
    assert "doesn't fit the model tiny-llama: " in caught.value.message
    assert "not an adapter parameter in the model, and" in caught.value.message
