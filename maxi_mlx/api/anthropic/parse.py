"""Request bodies to `GenerateRequest`: the way in. All that needs no model is checked here."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from maxi_mlx.api.anthropic.errors import THREADS_UNSUPPORTED
from maxi_mlx.api.anthropic.messages import conversation
from maxi_mlx.api.anthropic.schema import CountBody, MessagesBody, OutputFormat
from maxi_mlx.api.anthropic.thinking import ThinkingUse, thinking_use
from maxi_mlx.api.anthropic.tools import ToolUse, tool_use
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.json_schema import check_schema
from maxi_mlx.api.openai.parse import MAX_MODEL_NAME_CHARS
from maxi_mlx.api.openai.sampling import RANGES, check_range, shown
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import Constraint, json_by_schema
from maxi_mlx.core.request import (
    MAX_STOP_LENGTH,
    MAX_STOP_STRINGS,
    ChatPrompt,
    GenerateRequest,
    SamplingParams,
)

_MESSAGES = msgspec.json.Decoder(MessagesBody)
_COUNT = msgspec.json.Decoder(CountBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCall:
    """A message: what to generate and how to send it. ``max_tokens`` is the client's: with 0 the
    prompt is read, and the one token that this takes is not told."""

    request: GenerateRequest
    stream: bool
    max_tokens: int
    shows_thoughts: bool


def parse_message(body: bytes, *, request_id: str) -> MessageCall:
    """The call in a body for ``/messages``; raises `InvalidRequest`."""
    fields = decode(body, _MESSAGES)
    _refuse_unserved(fields)
    max_tokens = _max_tokens(fields)
    thinking = thinking_use(fields, max_tokens=max_tokens)
    tools = tool_use(fields)
    prompt = _prompt(fields, tools, thinking)
    constraint = _constraint(fields)
    if constraint is not None and prompt.prefill is not None:
        raise InvalidRequest(
            f"'{constraint.param}' holds for a whole answer, but the last message begins it. "
            "Leave the assistant's last message out.",
            param=constraint.param,
        )
    request = GenerateRequest(
        id=request_id,
        model=_model(fields),
        prompts=(prompt,),
        max_tokens=max(max_tokens, 1),
        stop=_stop_sequences(fields.stop_sequences or ()),
        sampling=_sampling(fields),
        tool_choice=tools.choice,
        parallel_tool_calls=tools.parallel,
        reasoning=thinking.reasoning,
        constraint=constraint,
    )
    return MessageCall(
        request=request,
        stream=fields.stream or False,
        max_tokens=max_tokens,
        shows_thoughts=thinking.is_shown,
    )


def parse_count(body: bytes, *, request_id: str) -> GenerateRequest:
    """A body for ``/messages/count_tokens``, as a request whose prompt is to be counted."""
    fields = decode(body, _COUNT)
    thinking = thinking_use(fields, max_tokens=None)
    _constraint(fields)
    prompt = _prompt(fields, tool_use(fields), thinking)
    return GenerateRequest(id=request_id, model=_model(fields), prompts=(prompt,))


def _refuse_unserved(fields: MessagesBody) -> None:
    if fields.container is not None:
        raise InvalidRequest(
            "'container' is not served: no code runs on this server.", param="container"
        )
    if fields.thread not in (None, False):
        raise InvalidRequest(
            "'thread' is not served: conversations are not kept; send all of their 'messages'.",
            param="thread",
            code=THREADS_UNSUPPORTED,
        )


def _prompt(fields: CountBody, tools: ToolUse, thinking: ThinkingUse) -> ChatPrompt:
    if fields.mcp_servers:
        raise InvalidRequest(
            "'mcp_servers' is not served: this server calls no others. Let your client run the "
            "tools.",
            param="mcp_servers",
        )
    said = conversation(fields.messages, fields.system)
    return ChatPrompt(
        messages=said.messages,
        tools=tools.tools,
        template_kwargs=thinking.template_kwargs,
        prefill=said.prefill,
    )


def _model(fields: CountBody) -> str:
    name = fields.model or ""
    if len(name) > MAX_MODEL_NAME_CHARS:
        raise InvalidRequest(
            f"'model' has {len(name)} characters; a name has at most {MAX_MODEL_NAME_CHARS}.",
            param="model",
        )
    return name


def _max_tokens(fields: MessagesBody) -> int:
    value = fields.max_tokens
    if value is None:
        raise InvalidRequest(
            "'max_tokens' is missing; say how long the answer may be.", param="max_tokens"
        )
    if value < 0:
        raise InvalidRequest(
            f"'max_tokens' must be at least 0, not {shown(value)}.", param="max_tokens"
        )
    return value


def _stop_sequences(stops: list[str] | tuple[()]) -> tuple[str, ...]:
    if len(stops) > MAX_STOP_STRINGS:
        raise InvalidRequest(
            f"'stop_sequences' has {len(stops)} strings; at most {MAX_STOP_STRINGS} are allowed.",
            param="stop_sequences",
        )
    for index, stop in enumerate(stops):
        if not 0 < len(stop) <= MAX_STOP_LENGTH:
            param = f"stop_sequences[{index}]"
            raise InvalidRequest(
                f"'{param}' must have 1 to {MAX_STOP_LENGTH} characters, not {len(stop)}.",
                param=param,
            )
    return tuple(stops)


def _sampling(fields: MessagesBody) -> SamplingParams:
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(fields, name)
        if value is not None:
            check_range(name, value, allowed=RANGES[name])
    return SamplingParams(
        temperature=fields.temperature,
        top_p=fields.top_p,
        top_k=None if fields.top_k is None else max(fields.top_k, 0),
    )


def _constraint(fields: CountBody) -> Constraint | None:
    config, older = fields.output_config, fields.output_format
    if config is None or config.format is None:
        return None if older is None else _format(older, "output_format")
    if older is not None:
        raise InvalidRequest(
            "'output_format' is the older name of 'output_config.format'; send one of them.",
            param="output_format",
        )
    return _format(config.format, "output_config.format")


def _format(wanted: OutputFormat, path: str) -> Constraint:
    if wanted.type != "json_schema":
        kind = "missing" if wanted.type is None else f"{shown(wanted.type)!r}"
        raise InvalidRequest(
            f"'{path}.type' is {kind}; it must be 'json_schema'.", param=f"{path}.type"
        )
    schema = f"{path}.schema"
    if wanted.schema is None:
        raise InvalidRequest(f"'{schema}' is missing.", param=schema)
    check_schema(wanted.schema, schema)
    try:
        node = json_by_schema(wanted.schema)
    except RecursionError:  # what stands in an enum or a default may nest as it likes
        raise InvalidRequest(f"'{schema}' nests too deeply.", param=schema) from None
    return Constraint(node=node, param=schema)
