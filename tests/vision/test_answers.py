"""Answers about images are those of mlx-vlm's own models, alone and in company."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from maxi_mlx.core.request import ChatPrompt, Message, SamplingParams
from maxi_mlx.engine.engine import Engine
from tests.engine.asking import Reply, ask, make_request
from tests.vision.asking import ask_about, picture, prompt_text
from tests.vision.tiny import FAMILIES

pytestmark = pytest.mark.parametrize("family", FAMILIES)


def ids_of(reply: Reply) -> list[int]:
    assert reply.failure is None
    return [token.token_id for token in reply.tokens[0]]


def expected(folder: Path, family: str, *seeds: int) -> list[int]:
    from tests.vision.reference import greedy

    images = [picture(seed) for seed in seeds]
    text = prompt_text(family, *images)
    return greedy(folder / f"tiny-{family}", text, images, max_tokens=16)


async def test_alone_again_and_about_another_image(
    engine: Engine, seeing_models: Path, family: str
) -> None:
    model = f"tiny-{family}"
    first = await ask(engine, ask_about(picture(0), model=model))
    again = await ask(engine, ask_about(picture(0), model=model))
    other = await ask(engine, ask_about(picture(1), model=model))
    both = await ask(engine, ask_about(picture(0), picture(1), model=model))
    assert ids_of(first) == ids_of(again) == expected(seeing_models, family, 0)
    assert ids_of(other) == expected(seeing_models, family, 1) != ids_of(first)
    assert ids_of(both) == expected(seeing_models, family, 0, 1)
    usages = [reply.usage for reply in (first, again, other)]
    assert all(usages)
    prompts = [usage.prompt_tokens for usage in usages if usage]
    cached = [usage.cached_tokens for usage in usages if usage]
    # What another image shares is the template's first words, which is too little to keep.
    assert cached == [0, prompts[0] - 1, 0]
    assert await engine.count_tokens(ask_about(picture(1), model=model)) == prompts[2]


@pytest.mark.slow
async def test_a_conversation_goes_on_about_its_image(engine: Engine, family: str) -> None:
    """From the prompt cache, where the image isn't looked at again, as if read from its start."""
    question = "What is it, and what is it for? " * 6  # less isn't worth keeping
    first = ask_about(picture(0), model=f"tiny-{family}", question=question)
    answer = await ask(engine, first)
    [prompt] = first.prompts
    assert isinstance(prompt, ChatPrompt)
    turns = (
        *prompt.messages,
        Message(role="assistant", text="A house."),
        Message(role="user", text="And what is behind it?"),
    )
    going_on = replace(first, prompts=(replace(prompt, messages=turns),), id="again")
    cached = await ask(engine, going_on)
    fresh = await ask(engine, replace(going_on, uses_cache=False, id="fresh"))
    assert ids_of(cached) == ids_of(fresh)
    assert answer.usage is not None
    assert cached.usage is not None
    # Less the last token, and what the template has after a turn.
    assert cached.usage.cached_tokens >= answer.usage.prompt_tokens - 8


@pytest.mark.slow
async def test_beside_text_and_other_images(
    engine: Engine, seeing_models: Path, family: str
) -> None:
    """All at once, with penalties in some rows, which look at all tokens of a prompt."""
    model = f"tiny-{family}"
    penalties = SamplingParams(temperature=0.0, repetition_penalty=3.0, presence_penalty=0.5)
    text = make_request("Tell me a long story.", model=model, top_logprobs=0, max_tokens=40)
    alone = ids_of(await ask(engine, text))
    held_back = ask_about(picture(1), model=model, sampling=penalties)
    replies = await asyncio.gather(
        ask(engine, replace(text, id="text")),
        ask(engine, ask_about(picture(0), model=model)),
        ask(engine, held_back),
        ask(engine, ask_about(picture(1), model=model)),
    )
    assert ids_of(replies[0]) == alone
    assert ids_of(replies[1]) == expected(seeing_models, family, 0)
    assert ids_of(replies[2]) == ids_of(await ask(engine, held_back))
    assert ids_of(replies[3]) == expected(seeing_models, family, 1)
