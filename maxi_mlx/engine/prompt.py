"""Prompts to token ids: the chat template, the tokenizer, and the checks that need a model.

Runs on worker threads, never on the loop or the device thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxi_mlx.core.errors import ContextTooLong, InvalidRequest, NotInstalled
from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Prompt, TextPrompt, TokenPrompt
from maxi_mlx.engine.answer_plan import AnswerPlan, plan_answers
from maxi_mlx.engine.fill_in_middle import fill_in_middle_prompt
from maxi_mlx.text.reasoning import leaves_thought_open

if TYPE_CHECKING:
    from maxi_mlx.engine.language_model import LanguageModel
    from maxi_mlx.engine.vision.eyes import Eyes
    from maxi_mlx.engine.vision.pictures import Picture
    from maxi_mlx.engine.vision.sight import PreparedImage


@dataclass(frozen=True, slots=True)
class BuiltPrompt:
    """A prompt as the model reads it, and what becomes of its answers."""

    token_ids: list[int]
    plan: AnswerPlan
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class _Text:
    """A prompt's token ids, images' among them; ``thought_is_open``: it ends inside a thought."""

    token_ids: list[int]
    images: Sequence[PreparedImage] = ()
    thought_is_open: bool = False


@contextmanager
def _naming_field(prompt: Prompt) -> Iterator[None]:
    """A refusal that names no field is of the prompt."""
    try:
        yield
    except InvalidRequest as error:
        error.param = error.param or ("messages" if isinstance(prompt, ChatPrompt) else "prompt")
        raise


class PromptBuilder:
    """Makes token ids for one model. Safe to call from any thread."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._tokenizer = model.tokenizer
        self._lock = model.tokenizer_lock

    def build(self, request: GenerateRequest) -> list[BuiltPrompt]:
        """Every prompt of a request, all of them checked."""
        for token_id, _ in request.sampling.logit_bias:
            if token_id >= self._model.vocabulary_size:
                raise InvalidRequest(
                    f"logit_bias names token {token_id}, but the vocabulary of "
                    f"{self._model.entry.id} ends at {self._model.vocabulary_size - 1}.",
                    param="logit_bias",
                )
        built = []
        for prompt in request.prompts:
            with _naming_field(prompt):
                built.append(self._built(prompt, request))
        return built

    def count(self, request: GenerateRequest) -> int:
        """How many tokens the prompts have, be they more than the context holds."""
        num_tokens = 0
        for prompt in request.prompts:
            with _naming_field(prompt):
                num_tokens += len(self._read(prompt).token_ids)
        return num_tokens

    def _built(self, prompt: Prompt, request: GenerateRequest) -> BuiltPrompt:
        read = self._read(prompt)
        plan = plan_answers(
            request,
            self._model,
            thought_is_open=read.thought_is_open,
            encode=self._encode_tag,
        )
        token_ids = self._checked(read.token_ids)
        if not read.images:
            return BuiltPrompt(token_ids, plan)
        token_ids, pictures = self._placed(token_ids, read.images)
        return BuiltPrompt(token_ids, plan, pictures)

    def _read(self, prompt: Prompt) -> _Text:
        if not isinstance(prompt, ChatPrompt):
            return _Text(self._token_ids(prompt))
        text, images = self._rendered(prompt)
        reasoning = self._model.habits.reasoning
        is_open = reasoning is not None and leaves_thought_open(reasoning, text)
        if prompt.prefill is not None:
            text, is_open = text + self._prefill(prompt.prefill, thought_is_open=is_open), False
        token_ids = self._encode(text, add_special_tokens=False)
        return _Text(token_ids, images, thought_is_open=is_open)

    def _rendered(self, prompt: ChatPrompt) -> tuple[str, Sequence[PreparedImage]]:
        if not prompt.images:
            return self._model.habits.render(prompt), ()
        # Pillow comes with the extra that a model's eyes do.
        from maxi_mlx.engine.vision.prompts import prepare_images, put_in

        sight = self._eyes.sight
        text = self._model.habits.render(prompt, image_text=sight.placeholder)
        images = prepare_images(sight, prompt.images)
        return put_in(sight, text, images), images

    def _placed(
        self, token_ids: list[int], images: Sequence[PreparedImage]
    ) -> tuple[list[int], tuple[Picture, ...]]:
        from maxi_mlx.engine.vision.prompts import place_pictures

        eyes = self._eyes
        token_id = self._tokenizer.get_vocab()[eyes.sight.token]
        return place_pictures(eyes.sight, token_ids, images, token_id=token_id, salt=eyes.salt)

    @property
    def _eyes(self) -> Eyes:
        eyes = self._model.eyes
        if eyes is None:
            raise NotInstalled(
                f"{self._model.entry.id} was loaded before the package that reads images was "
                "installed. Start the server again."
            )
        return eyes

    def _prefill(self, text: str, *, thought_is_open: bool) -> str:
        """The beginning of an answer, which says nothing of a thought."""
        reasoning = self._model.habits.reasoning
        if reasoning is not None and reasoning.channels is not None:
            raise InvalidRequest(
                f"{self._model.entry.id} can't go on from the beginning of an answer. Leave the "
                "assistant's last message out."
            )
        return reasoning.closing + text if reasoning is not None and thought_is_open else text

    def _encode_tag(self, text: str) -> list[int]:
        return self._encode(text, add_special_tokens=False)

    def _token_ids(self, prompt: TextPrompt | TokenPrompt) -> list[int]:
        match prompt:
            case TextPrompt(text, None):
                return self._encode(text, add_special_tokens=True)
            case TextPrompt(text, suffix):
                assert suffix is not None
                return self._encode(self._fill_in_middle(text, suffix), add_special_tokens=True)
            case TokenPrompt(token_ids):
                return list(token_ids)

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
            raise ContextTooLong.by(
                f"The prompt has {fewest_tokens} tokens or more, but {model.entry.id} has a "
                f"context of {model.context_length} tokens. Shorten the prompt.",
                prompt_tokens=fewest_tokens,
                context_tokens=model.context_length,
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
            raise ContextTooLong.by(
                f"The prompt has {len(token_ids)} tokens, but {model.entry.id} has a context of "
                f"{model.context_length} tokens, and at least one must be left for the answer. "
                "Shorten the prompt.",
                prompt_tokens=len(token_ids),
                context_tokens=model.context_length,
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
