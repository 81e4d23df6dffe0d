"""The ``prompt`` of a text completion, in its four shapes, to prompts of the core."""

from __future__ import annotations

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Prompt, TextPrompt, TokenPrompt

WirePrompt = str | list[str | int | list[int]] | None

# Prompts times answers for each. As many as OpenAI takes prompts in one request.
MAX_TOTAL_CHOICES = 2048


def prompts(wire: WirePrompt, *, suffix: str | None, num_answers: int) -> tuple[Prompt, ...]:
    if wire is None:
        raise InvalidRequest(
            "'prompt' is missing. (Chat messages go to /v1/chat/completions.)", param="prompt"
        )
    found = _prompts(wire, suffix or None)
    if suffix and not isinstance(found[0], TextPrompt):
        raise InvalidRequest("'suffix' needs a prompt of text, not of token ids.", param="suffix")
    if len(found) * num_answers > MAX_TOTAL_CHOICES:
        raise InvalidRequest(
            f"{len(found)} prompts with {num_answers} answers each are more than the "
            f"{MAX_TOTAL_CHOICES} answers that one request may ask for.",
            param="prompt" if len(found) > MAX_TOTAL_CHOICES else "n",
        )
    return found


def _prompts(wire: str | list[str | int | list[int]], suffix: str | None) -> tuple[Prompt, ...]:
    if isinstance(wire, str):
        return (_text_prompt(wire, "prompt", suffix=suffix),)
    if not wire:
        raise InvalidRequest("'prompt' is an empty list.", param="prompt")
    texts = [item for item in wire if isinstance(item, str)]
    token_ids = [item for item in wire if isinstance(item, int)]
    lists = [item for item in wire if isinstance(item, list)]
    if len(wire) not in (len(texts), len(token_ids), len(lists)):
        raise InvalidRequest(
            "'prompt' mixes strings, token ids and lists; send one kind.", param="prompt"
        )
    if token_ids:
        return (_token_prompt(token_ids, "prompt"),)
    if lists:
        return tuple(_token_prompt(ids, f"prompt[{index}]") for index, ids in enumerate(lists))
    return tuple(
        _text_prompt(text, f"prompt[{index}]", suffix=suffix) for index, text in enumerate(texts)
    )


def _text_prompt(text: str, path: str, *, suffix: str | None) -> TextPrompt:
    if not text:
        raise InvalidRequest(f"'{path}' is empty; there is nothing to continue.", param=path)
    return TextPrompt(text, suffix)


def _token_prompt(token_ids: list[int], path: str) -> TokenPrompt:
    if not token_ids:
        raise InvalidRequest(f"'{path}' is empty; there is nothing to continue.", param=path)
    if min(token_ids) < 0:
        place = next(index for index, token_id in enumerate(token_ids) if token_id < 0)
        param = f"{path}[{place}]"
        raise InvalidRequest(f"'{param}' is negative; token ids start at 0.", param=param)
    return TokenPrompt(tuple(token_ids))
