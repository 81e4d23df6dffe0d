"""Which turns of a conversation go first where it is longer than the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Message


def num_droppable(request: GenerateRequest) -> int:
    """How many turns can go: all but the last. A turn is a user's message with all that follows
    it, so that a call and its result go together. System messages stay."""
    return max(0, len(_turns(_messages(request))) - 1)


def without_turns(request: GenerateRequest, num_turns: int) -> GenerateRequest:
    """The request without its oldest ``num_turns``."""
    prompt = request.prompts[0]
    assert isinstance(prompt, ChatPrompt)
    turns = _turns(prompt.messages)
    kept = {id(message) for turn in turns[num_turns:] for message in turn}
    messages = tuple(m for m in prompt.messages if m.role == "system" or id(m) in kept)
    return replace(request, prompts=(replace(prompt, messages=messages),))


def _messages(request: GenerateRequest) -> Sequence[Message]:
    prompt = request.prompts[0]
    return prompt.messages if isinstance(prompt, ChatPrompt) else ()


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "system":
            continue
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns
