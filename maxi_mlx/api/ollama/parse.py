"""Request bodies to `GenerateRequest`: the way in. All that needs no model is checked here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from maxi_mlx.api.ollama.context import decode_context
from maxi_mlx.api.ollama.keep_alive import checked_keep_alive
from maxi_mlx.api.ollama.messages import conversation, user_message
from maxi_mlx.api.ollama.options import (
    constraint,
    max_tokens,
    reasoning,
    sampling_params,
    stops,
    template_kwargs,
)
from maxi_mlx.api.ollama.schema import ChatBody, GenerateBody, OptionsItem, WritingBody
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.embeddings import checked_model
from maxi_mlx.api.openai.sampling import check_top_logprobs
from maxi_mlx.api.openai.schema import ChatBody as OpenAIChatBody
from maxi_mlx.api.openai.tools import tool_use
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Message, Prompt, TextPrompt

_CHAT = msgspec.json.Decoder(ChatBody)
_GENERATE = msgspec.json.Decoder(GenerateBody)

# What a request that has nothing to answer is counted by, where its model is only to be loaded.
_NOTHING = TextPrompt(" ")


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingCall:
    """What to generate and how to send it. ``history`` is the conversation that the answer's
    ``context`` goes on from; None: it has none.

    ``keep_alive_s`` is how long the model then stays; None: the request doesn't say. ``loads``:
    there is nothing to answer, the model is only to be loaded; with ``unloads``, it is not needed
    any more.
    """

    request: GenerateRequest
    stream: bool
    history: tuple[Message, ...] | None = None
    keep_alive_s: float | None = None
    loads: bool = False

    @property
    def unloads(self) -> bool:
        return self.loads and self.keep_alive_s == 0


def parse_chat(body: bytes, *, request_id: str) -> WritingCall:
    """The call in a body for ``/api/chat``; raises `InvalidRequest`."""
    fields = decode(body, _CHAT)
    request = _request(fields, request_id)
    if not fields.messages:
        return _loading(fields, request)
    said = conversation(fields.messages)
    if request.constraint is not None and said.prefill is not None:
        raise InvalidRequest(
            "'format' holds for a whole answer, but the last message begins it. Leave the "
            "assistant's last message out.",
            param="format",
        )
    use = tool_use(OpenAIChatBody(tools=fields.tools))
    prompt = ChatPrompt(
        messages=said.messages,
        tools=use.tools,
        template_kwargs=template_kwargs(request.reasoning),
        prefill=said.prefill,
    )
    request = replace(request, prompts=(prompt,))
    return WritingCall(
        request=request,
        stream=fields.stream is not False,
        keep_alive_s=checked_keep_alive(fields.keep_alive),
    )


def parse_generate(body: bytes, *, request_id: str) -> WritingCall:
    """The call in a body for ``/api/generate``; raises `InvalidRequest`."""
    fields = decode(body, _GENERATE)
    request = _request(fields, request_id)
    if fields.template:
        raise InvalidRequest(
            "'template' is not served: the model's own template is used. For a prompt in a form "
            'of your own send it whole, with "raw": true.',
            param="template",
        )
    if not fields.prompt and not fields.suffix and not fields.images:
        return _loading(fields, request)
    prompt, history = _prompt(fields, template_kwargs(request.reasoning))
    return WritingCall(
        request=replace(request, prompts=(prompt,)),
        stream=fields.stream is not False,
        history=history,
        keep_alive_s=checked_keep_alive(fields.keep_alive),
    )


def _prompt(
    fields: GenerateBody, kwargs: dict[str, Any]
) -> tuple[Prompt, tuple[Message, ...] | None]:
    """The prompt, and the conversation that it stands for."""
    text = fields.prompt or ""
    if fields.raw or fields.suffix:
        for name in ("system", "context", "images"):
            if getattr(fields, name):
                raise InvalidRequest(
                    f"'{name}' is for a conversation, but the prompt is read as it is, by "
                    f"'{'raw' if fields.raw else 'suffix'}'. Leave one of them out.",
                    param=name,
                )
        return TextPrompt(text, fields.suffix or None), None
    history = decode_context(fields.context or ())
    if fields.system:
        system = Message(role="system", text=fields.system)
        history = (system, *(each for each in history if each.role != "system"))
    history = (*history, user_message(text, fields.images, "images"))
    return ChatPrompt(messages=history, template_kwargs=kwargs), history


def _request(fields: WritingBody, request_id: str) -> GenerateRequest:
    """All of it but the prompt."""
    options = fields.options or OptionsItem()
    if fields.top_logprobs is not None:
        check_top_logprobs("top_logprobs", fields.top_logprobs)
    return GenerateRequest(
        id=request_id,
        model=checked_model(fields.model),
        prompts=(_NOTHING,),
        max_tokens=max_tokens(options),
        stop=stops(options),
        sampling=sampling_params(options),
        top_logprobs=(fields.top_logprobs or 0) if fields.logprobs else None,
        reasoning=reasoning(fields.think),
        constraint=constraint(fields.format),
    )


def _loading(fields: WritingBody, request: GenerateRequest) -> WritingCall:
    return WritingCall(
        request=request,
        stream=fields.stream is not False,
        keep_alive_s=checked_keep_alive(fields.keep_alive),
        loads=True,
    )
