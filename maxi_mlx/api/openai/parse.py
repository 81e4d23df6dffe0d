"""Request bodies to `GenerateRequest`: the way in. All that needs no model is checked here."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from maxi_mlx.api.openai.constraints import constraint
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.input_items import input_messages
from maxi_mlx.api.openai.messages import messages
from maxi_mlx.api.openai.prompts import prompts
from maxi_mlx.api.openai.reasoning import checked_effort, reasoning, template_kwargs
from maxi_mlx.api.openai.refusals import (
    refuse_unserved,
    refuse_unserved_responses,
)
from maxi_mlx.api.openai.sampling import (
    check_ranges,
    check_top_logprobs,
    max_tokens,
    sampling_params,
    shown,
    stop_strings,
)
from maxi_mlx.api.openai.schema import ChatBody, CompletionBody, GenerationBody, ResponsesBody
from maxi_mlx.api.openai.tools import tool_use
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import ChatPrompt, GenerateRequest

MAX_MODEL_NAME_CHARS = 1024

_CHAT = msgspec.json.Decoder(ChatBody)
_RESPONSES = msgspec.json.Decoder(ResponsesBody)
_COMPLETION = msgspec.json.Decoder(CompletionBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCall:
    """A chat completion: what to generate and how to send it.

    ``legacy_functions``: tools were sent as ``functions``, and calls go back as ``function_call``.
    """

    request: GenerateRequest
    stream: bool
    include_usage: bool
    legacy_functions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionCall:
    """A text completion: what to generate and how to send it."""

    request: GenerateRequest
    stream: bool
    include_usage: bool

    @property
    def legacy_functions(self) -> bool:
        return False


def parse_chat(body: bytes, *, request_id: str) -> ChatCall:
    """The call in a body for ``/chat/completions``; raises `InvalidRequest`."""
    fields = decode(body, _CHAT)
    _check_shared(fields)
    limits = {
        "max_completion_tokens": fields.max_completion_tokens,
        "max_tokens": fields.max_tokens,
    }
    effort = checked_effort(fields.reasoning_effort, "reasoning_effort")
    text_format = None
    if fields.messages is None and (responses := decode(body, _RESPONSES)).input is not None:
        refuse_unserved_responses(responses)
        limits["max_output_tokens"] = responses.max_output_tokens
        if effort is None and responses.reasoning is not None:
            effort = checked_effort(responses.reasoning.effort, "reasoning.effort")
        if responses.text is not None:
            text_format = responses.text.format
        turns = input_messages(responses)
    else:
        turns = messages(fields.messages)
    refuse_unserved(fields)
    use = tool_use(fields)
    thinking = reasoning(fields, effort=effort)
    prompt = ChatPrompt(
        messages=turns, tools=use.tools, template_kwargs=template_kwargs(fields, thinking)
    )
    request = GenerateRequest(
        id=request_id,
        model=fields.model or "",
        prompts=(prompt,),
        n=fields.n or 1,
        max_tokens=max_tokens(limits),
        stop=stop_strings(fields.stop),
        sampling=sampling_params(fields),
        top_logprobs=_chat_logprobs(fields),
        uses_cache=fields.cache is not False,
        adapter=fields.adapters or None,
        tool_choice=use.choice,
        parallel_tool_calls=use.parallel,
        reasoning=thinking,
        constraint=constraint(fields, text_format=text_format),
    )
    return ChatCall(
        request=request,
        stream=fields.stream or False,
        include_usage=_include_usage(fields),
        legacy_functions=use.is_legacy,
    )


def parse_completion(body: bytes, *, request_id: str) -> CompletionCall:
    """The call in a body for ``/completions``; raises `InvalidRequest`."""
    fields = decode(body, _COMPLETION)
    _check_shared(fields)
    num_answers = fields.n or 1
    _check_completion(fields, num_answers)
    request = GenerateRequest(
        id=request_id,
        model=fields.model or "",
        prompts=prompts(fields.prompt, suffix=fields.suffix, num_answers=num_answers),
        n=num_answers,
        max_tokens=max_tokens(
            {
                "max_completion_tokens": fields.max_completion_tokens,
                "max_tokens": fields.max_tokens,
            }
        ),
        stop=stop_strings(fields.stop),
        sampling=sampling_params(fields),
        top_logprobs=fields.logprobs,
        echo=fields.echo or False,
        uses_cache=fields.cache is not False,
        adapter=fields.adapters or None,
        constraint=constraint(fields),
    )
    return CompletionCall(
        request=request, stream=fields.stream or False, include_usage=_include_usage(fields)
    )


def _check_shared(fields: GenerationBody) -> None:
    if fields.model is not None and len(fields.model) > MAX_MODEL_NAME_CHARS:
        raise InvalidRequest(
            f"'model' has {len(fields.model)} characters; a name has at most "
            f"{MAX_MODEL_NAME_CHARS}.",
            param="model",
        )
    check_ranges(fields)


def _check_completion(fields: CompletionBody, num_answers: int) -> None:
    if fields.best_of not in (None, 1, num_answers):
        raise InvalidRequest(
            f"'best_of' must be 1 or equal to 'n' ({num_answers}), not {shown(fields.best_of)}: "
            "answers are not ranked.",
            param="best_of",
        )
    if fields.logprobs is not None:
        check_top_logprobs("logprobs", fields.logprobs)
        if fields.echo:
            raise InvalidRequest(
                "'echo' together with 'logprobs' is not served: the prompt's tokens have no "
                "log-probabilities here. Leave one of them out.",
                param="echo",
            )


def _include_usage(fields: GenerationBody) -> bool:
    # Many clients send the options whether they stream or not; a whole answer has its usage anyway.
    options = fields.stream_options
    return bool(fields.stream and options is not None and options.include_usage)


def _chat_logprobs(fields: ChatBody) -> int | None:
    if fields.top_logprobs is not None:
        check_top_logprobs("top_logprobs", fields.top_logprobs)
    if fields.logprobs:
        return fields.top_logprobs or 0
    if fields.top_logprobs:
        raise InvalidRequest("'top_logprobs' needs 'logprobs': true.", param="top_logprobs")
    return None
