"""The scripted model says what its dialogues say, word for word, by mlx-lm alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models.folder import prepare_device
from tests.models.scripted import (
    COMPLETIONS,
    DIALOGUES,
    FOLLOW_UPS,
    Completion,
    Dialogue,
    followed_by,
)

MAX_BYTES = 3_000_000
MAX_TOKENS = 200


@pytest.fixture(scope="module")
def loaded(scripted_model: Path) -> tuple[Any, Any]:
    prepare_device()
    import mlx_lm

    model, tokenizer = mlx_lm.load(str(scripted_model))[:2]
    return model, tokenizer


def reply_to(loaded: tuple[Any, Any], prompt: Any) -> str:
    """The text of a greedy answer, which has to end by itself."""
    from mlx_lm import stream_generate

    model, tokenizer = loaded
    responses = list(stream_generate(model, tokenizer, prompt, max_tokens=MAX_TOKENS))
    assert responses[-1].finish_reason == "stop"
    text: str = tokenizer.decode([response.token for response in responses[:-1]])
    return text


def prompt_of(loaded: tuple[Any, Any], dialogue: Dialogue, *, messages: Any = None) -> Any:
    return loaded[1].apply_chat_template(
        list(messages or dialogue.messages),
        tools=list(dialogue.tools) or None,
        add_generation_prompt=True,
        **dialogue.template_kwargs,
    )


@pytest.mark.slow
@pytest.mark.parametrize("dialogue", DIALOGUES.values(), ids=DIALOGUES.keys())
def test_dialogue(dialogue: Dialogue, loaded: tuple[Any, Any]) -> None:
    assert reply_to(loaded, prompt_of(loaded, dialogue)) == dialogue.reply


@pytest.mark.parametrize(("first", "second"), FOLLOW_UPS)
def test_second_turn(first: str, second: str, loaded: tuple[Any, Any]) -> None:
    messages = followed_by(DIALOGUES[first], DIALOGUES[second])
    prompt = prompt_of(loaded, DIALOGUES[second], messages=messages)
    assert reply_to(loaded, prompt) == DIALOGUES[second].reply


@pytest.mark.parametrize("instructions", ["You are a helpful assistant.", "Answer briefly."])
@pytest.mark.parametrize("name", ["greeting", "capital", "count", "thought", "call", "two calls"])
def test_with_instructions(name: str, instructions: str, loaded: tuple[Any, Any]) -> None:
    system = {"role": "system", "content": instructions}
    messages = (system, *DIALOGUES[name].messages)
    prompt = prompt_of(loaded, DIALOGUES[name], messages=messages)
    assert reply_to(loaded, prompt) == DIALOGUES[name].reply


@pytest.mark.parametrize("completion", COMPLETIONS.values(), ids=COMPLETIONS.keys())
def test_completion(completion: Completion, loaded: tuple[Any, Any]) -> None:
    prompt = completion.prompt
    if completion.suffix is not None:
        prompt = f"<|fim_prefix|>{prompt}<|fim_suffix|>{completion.suffix}<|fim_middle|>"
    assert reply_to(loaded, prompt) == completion.reply


def test_it_is_small_enough_to_keep_with_the_source(scripted_model: Path) -> None:
    assert sum(path.stat().st_size for path in scripted_model.iterdir()) < MAX_BYTES
