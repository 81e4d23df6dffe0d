"""Prompts to token ids: the chat template, the tokenizer, and the checks that need a model.

Runs on worker threads, never on the loop or the device thread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from maxi_mlx.core.errors import ContextTooLong, InvalidRequest
from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Message, Prompt, TextPrompt
from maxi_mlx.engine.fill_in_middle import fill_in_middle_prompt

if TYPE_CHECKING:
    from maxi_mlx.engine.language_model import LanguageModel

_APART = "\n\n"  # between texts that are merged into one message


class PromptBuilder:
    """Makes token ids for one model. Safe to call from any thread."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._tokenizer = model.tokenizer
        # transformers' encode changes the tokenizer's own state for the time of a call.
        self._lock = Lock()

    def build(self, request: GenerateRequest) -> list[list[int]]:
        """The token ids of every prompt of a request, all of them checked."""
        for token_id, _ in request.sampling.logit_bias:
            if token_id >= self._model.vocabulary_size:
                raise InvalidRequest(
                    f"logit_bias names token {token_id}, but the vocabulary of "
                    f"{self._model.entry.id} ends at {self._model.vocabulary_size - 1}.",
                    param="logit_bias",
                )
        token_ids = []
        for prompt in request.prompts:
            try:
                token_ids.append(self._checked(self._token_ids(prompt)))
            except InvalidRequest as error:
                error.param = error.param or ("messages" if request.is_chat else "prompt")
                raise
        return token_ids

    def _token_ids(self, prompt: Prompt) -> list[int]:
        match prompt:
            case ChatPrompt():
                return self._encode(self._render(prompt), add_special_tokens=False)
            case TextPrompt(text, None):
                return self._encode(text, add_special_tokens=True)
            case TextPrompt(text, suffix):
                assert suffix is not None
                return self._encode(self._fill_in_middle(text, suffix), add_special_tokens=True)
            case _:
                return list(prompt.token_ids)

    def _encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        self._check_length(text)
        with self._lock:
            # Not verbose: it would warn of prompts that are too long, which are refused anyway.
            return list(
                self._tokenizer.encode(text, add_special_tokens=add_special_tokens, verbose=False)
            )

    def _check_length(self, text: str) -> None:
        """Refuses what can't fit however it is cut, before it is: megabytes take seconds."""
        model = self._model
        fewest_tokens = len(text.encode()) // max(model.vocabulary.longest_bytes, 1)
        if fewest_tokens >= model.context_length:
            raise ContextTooLong(
                f"The prompt has {fewest_tokens} tokens or more, but {model.entry.id} has a "
                f"context of {model.context_length} tokens. Shorten the prompt."
            )

    def _checked(self, token_ids: list[int]) -> list[int]:
        model = self._model
        if not token_ids:
            raise InvalidRequest(
                "The prompt is empty: there is nothing to continue. Send some text."
            )
        largest = max(token_ids)
        if largest >= model.vocabulary_size:
            raise InvalidRequest(
                f"The prompt has token id {largest}, but the vocabulary of {model.entry.id} "
                f"ends at {model.vocabulary_size - 1}."
            )
        if len(token_ids) >= model.context_length:
            raise ContextTooLong(
                f"The prompt has {len(token_ids)} tokens, but {model.entry.id} has a context of "
                f"{model.context_length} tokens, and at least one must be left for the answer. "
                "Shorten the prompt."
            )
        return token_ids

    def _fill_in_middle(self, prefix: str, suffix: str) -> str:
        vocabulary = self._tokenizer.get_vocab()
        text = fill_in_middle_prompt(prefix, suffix, has_token=vocabulary.__contains__)
        if text is None:
            raise InvalidRequest(
                f"{self._model.entry.id} has no fill-in-the-middle tokens, so it can't take a "
                "suffix. Leave suffix out, or use a code model that has them.",
                param="suffix",
            )
        return text

    # -- chat --------------------------------------------------------------------------------

    def _render(self, prompt: ChatPrompt) -> str:
        if not self._tokenizer.has_chat_template:
            raise InvalidRequest(
                f"{self._model.entry.id} has no chat template: it is a base model. Use "
                "/v1/completions, or an instruct model.",
                param="model",
            )
        problem: Exception | None = None
        for arranged in (list, merge_turns, fold_system):
            try:
                return self._apply_template(arranged(prompt.messages), prompt)
            except Exception as error:
                # A template is a program of the model's: whatever it raises, it says no.
                problem = problem or error
        raise InvalidRequest(
            f"The chat template of {self._model.entry.id} does not take these messages: {problem}"
        )

    def _apply_template(self, messages: Sequence[Message], prompt: ChatPrompt) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                [template_message(message) for message in messages],
                tokenize=False,
                add_generation_prompt=True,
                **prompt.template_kwargs,
            )
        )


def template_message(message: Message) -> dict[str, Any]:
    """A message as chat templates expect it; a call's arguments as an object if they are one."""
    wire: dict[str, Any] = {"role": message.role, "content": message.text or ""}
    if message.name is not None:
        wire["name"] = message.name
    if message.reasoning is not None:
        wire["reasoning_content"] = message.reasoning
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return wire


def _arguments(text: str) -> Any:
    """A model may once have written arguments that are no JSON; the template gets them as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def merge_turns(messages: Sequence[Message]) -> list[Message]:
    """For templates that allow one leading system message and strict turns: all system texts in
    front as one, neighbours of one role joined."""
    system = [message.text for message in messages if message.role == "system" and message.text]
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "system":
            continue
        if turns and _can_join(turns[-1][-1], message):
            turns[-1].append(message)
        else:
            turns.append([message])
    merged = [Message(role="system", text=_APART.join(system))] if system else []
    return merged + [turn[0] if len(turn) == 1 else _joined(turn) for turn in turns]


def _can_join(last: Message, message: Message) -> bool:
    return (
        last.role == message.role
        and message.role in ("user", "assistant")
        and last.name == message.name
        and not last.tool_calls
        and not message.tool_calls
    )


def _joined(turn: Sequence[Message]) -> Message:
    return Message(
        role=turn[0].role,
        text=_APART.join(message.text for message in turn if message.text),
        name=turn[0].name,
        reasoning=_APART.join(message.reasoning for message in turn if message.reasoning) or None,
    )


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """For templates without a system role: its text goes to the front of the first user message."""
    merged = merge_turns(messages)
    if not merged or merged[0].role != "system":
        return merged
    system, rest = merged[0], merged[1:]
    if rest and rest[0].role == "user":
        text = _APART.join(part for part in (system.text, rest[0].text) if part)
        return [Message(role="user", text=text), *rest[1:]]
    return [Message(role="user", text=system.text), *rest]
