"""Bodies for ``/responses`` to `GenerateRequest`, in two steps: what a body refers to has to be
fetched in between, by somebody who knows where it is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from maxi_mlx.api.openai.constraints import constraint
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.parse import MAX_MODEL_NAME_CHARS
from maxi_mlx.api.openai.reasoning import checked_effort, reasoning, template_kwargs
from maxi_mlx.api.openai.sampling import (
    check_ranges,
    check_top_logprobs,
    max_tokens,
    sampling_params,
    stop_strings,
)
from maxi_mlx.api.openai.schema import ChatBody
from maxi_mlx.api.responses.answer_schema import Repeated
from maxi_mlx.api.responses.items import (
    PlacedItem,
    RawItem,
    is_reference,
    kept_items,
    messages_of,
)
from maxi_mlx.api.responses.names import WireName
from maxi_mlx.api.responses.refusals import check_metadata, refuse_unserved
from maxi_mlx.api.responses.schema import Item, ResponseBody
from maxi_mlx.api.responses.tools import ResponseTools, response_tools
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import NO_LIMIT, ChatPrompt, GenerateRequest, Reasoning

LOGPROBS = "message.output_text.logprobs"

_BODY = msgspec.json.Decoder(ResponseBody)
_RAW: msgspec.json.Decoder[Mapping[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_NO_ITEMS: Mapping[str, RawItem] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedResponse:
    """A body, its types checked. ``raw`` is the same as plain JSON, for what is repeated or kept
    as it was sent."""

    fields: ResponseBody
    raw: Mapping[str, Any]

    @property
    def previous_id(self) -> str | None:
        return self.fields.previous_response_id or None

    @property
    def references(self) -> tuple[str, ...]:
        """Ids of items that stand in the input by their ids alone."""
        return tuple(item.id or "" for item in _input(self.fields) if is_reference(item))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCall:
    """A response: what to generate, how to send it, and what becomes of it.

    ``input_items`` is the new input as it is kept; ``asked`` are the fields that the response
    repeats; ``names`` the clients' names of tools by the prompt's.
    """

    request: GenerateRequest
    asked: Repeated
    stream: bool = False
    stores: bool = True
    in_background: bool = False
    truncates: bool = False
    previous_id: str | None = None
    sends_summary: bool = False
    input_items: Sequence[RawItem] = ()
    names: Mapping[str, WireName] = field(default_factory=dict)


def read_response(body: bytes) -> AskedResponse:
    """The first step: types and what needs no store. Raises `InvalidRequest`."""
    fields = decode(body, _BODY)
    if fields.model is not None and len(fields.model) > MAX_MODEL_NAME_CHARS:
        raise InvalidRequest(
            f"'model' has {len(fields.model)} characters; a name has at most "
            f"{MAX_MODEL_NAME_CHARS}.",
            param="model",
        )
    check_ranges(fields)
    refuse_unserved(fields)
    check_metadata(fields.metadata or {})
    return AskedResponse(fields=fields, raw=decode(body, _RAW))


def parse_response(
    asked: AskedResponse,
    *,
    request_id: str,
    history: Sequence[RawItem] = (),
    referenced: Mapping[str, RawItem] = _NO_ITEMS,
    can_store: bool = True,
) -> ResponseCall:
    """The second step. ``history`` is what was said up to the previous response, ``referenced``
    the items that the input names by id. Raises `InvalidRequest`."""
    fields, raw = asked.fields, asked.raw
    stores = _stores(fields, can_store=can_store)
    raw_input = _raw_input(asked, referenced)
    kept = kept_items(raw_input, hex_id=request_id.removeprefix("req-"))
    items = [*_placed_history(history), *_placed_input(fields, referenced)]
    messages = messages_of(items, fields.instructions) if items else ()
    if not messages:
        raise InvalidRequest(
            "'input' is missing or empty; send a text or a list of items.", param="input"
        )
    tools = response_tools(fields, raw.get("tools") or ())
    thinking = _thinking(fields)
    prompt = ChatPrompt(
        messages=messages,
        tools=tools.tools,
        template_kwargs=template_kwargs(_chat(fields), thinking),
    )
    request = GenerateRequest(
        id=request_id,
        model=fields.model or "",
        prompts=(prompt,),
        adapter=fields.adapters or None,
        max_tokens=_max_tokens(fields),
        stop=stop_strings(fields.stop),
        sampling=sampling_params(fields),
        top_logprobs=_top_logprobs(fields),
        uses_cache=fields.cache is not False,
        tool_choice=tools.choice,
        parallel_tool_calls=fields.parallel_tool_calls is not False,
        reasoning=thinking,
        constraint=constraint(fields, text_format=fields.text.format if fields.text else None),
    )
    return ResponseCall(
        request=request,
        stream=fields.stream or False,
        stores=stores,
        in_background=fields.background or False,
        truncates=fields.truncation == "auto",
        previous_id=asked.previous_id,
        sends_summary=_summary(fields) is not None,
        input_items=kept,
        asked=_asked(asked, tools, stores=stores),
        names=tools.names,
    )


def _stores(fields: ResponseBody, *, can_store: bool) -> bool:
    """Whether the response is kept. Raises where it isn't, and nobody waits for it either."""
    stores = can_store and fields.store is not False
    if fields.background and not stores:
        raise InvalidRequest(
            "'background' needs 'store', else nobody could fetch the response; this request or "
            "this server (--no-store) keeps none.",
            param="background",
        )
    return stores


# -- the input ---------------------------------------------------------------------------------


def _input(fields: ResponseBody) -> Sequence[Item]:
    return fields.input if isinstance(fields.input, list) else ()


def _placed_input(fields: ResponseBody, referenced: Mapping[str, RawItem]) -> Iterator[PlacedItem]:
    if isinstance(fields.input, str):
        yield PlacedItem(Item(type="message", role="user", content=fields.input), "input")
    for index, item in enumerate(_input(fields)):
        path = f"input[{index}]"
        yield PlacedItem(_as_item(referenced[item.id or ""]) if is_reference(item) else item, path)


def _placed_history(history: Sequence[RawItem]) -> Iterator[PlacedItem]:
    for raw in history:
        yield PlacedItem(_as_item(raw), "previous_response_id")


def _as_item(raw: RawItem) -> Item:
    return msgspec.convert(raw, Item)


def _raw_input(
    asked: AskedResponse, referenced: Mapping[str, RawItem]
) -> str | Sequence[RawItem] | None:
    raw = asked.raw.get("input")
    if not isinstance(raw, list):
        return raw
    return [
        referenced[item.id or ""] if is_reference(item) else raw[index]
        for index, item in enumerate(_input(asked.fields))
    ]


# -- the options -------------------------------------------------------------------------------


def _max_tokens(fields: ResponseBody) -> int | None:
    return max_tokens(
        {
            "max_output_tokens": fields.max_output_tokens,
            "max_completion_tokens": fields.max_completion_tokens,
            "max_tokens": fields.max_tokens,
        }
    )


def _chat(fields: ResponseBody) -> ChatBody:
    """The names for thinking that chat has too."""
    return ChatBody(
        enable_thinking=fields.enable_thinking,
        thinking=fields.thinking,
        thinking_budget=fields.thinking_budget,
        thinking_token_budget=fields.thinking_token_budget,
        chat_template_kwargs=fields.chat_template_kwargs,
    )


def _thinking(fields: ResponseBody) -> Reasoning:
    effort = fields.reasoning.effort if fields.reasoning is not None else None
    return reasoning(_chat(fields), effort=checked_effort(effort, "reasoning.effort"))


def _summary(fields: ResponseBody) -> str | None:
    wanted = fields.reasoning
    if wanted is None:
        return None
    word = wanted.summary or wanted.generate_summary
    return None if word == "none" else word


def _top_logprobs(fields: ResponseBody) -> int | None:
    if fields.top_logprobs is not None:
        check_top_logprobs("top_logprobs", fields.top_logprobs)
    if LOGPROBS in (fields.include or ()) or fields.top_logprobs:
        return fields.top_logprobs or 0
    return None


def _asked(asked: AskedResponse, tools: ResponseTools, *, stores: bool) -> Repeated:
    """The request's fields that the response repeats, in the forms of OpenAI's schema."""
    fields, raw = asked.fields, asked.raw
    text = raw.get("text") or {}
    most_tokens = _max_tokens(fields)
    return {
        "instructions": fields.instructions,
        "max_output_tokens": None if most_tokens == NO_LIMIT else most_tokens,
        "metadata": fields.metadata or {},
        "parallel_tool_calls": fields.parallel_tool_calls is not False,
        "previous_response_id": asked.previous_id,
        "prompt_cache_key": _text_or_none(raw.get("prompt_cache_key")),
        "reasoning": {
            "effort": fields.reasoning.effort if fields.reasoning else None,
            "summary": _summary(fields),
        },
        "safety_identifier": _text_or_none(raw.get("safety_identifier")),
        "background": fields.background or False,
        "temperature": fields.temperature,
        "top_p": fields.top_p,
        "presence_penalty": fields.presence_penalty or 0.0,
        "frequency_penalty": fields.frequency_penalty or 0.0,
        "text": {
            "format": _repeated_format(text.get("format")),
            "verbosity": _text_or_none(text.get("verbosity")),
        },
        "tool_choice": raw.get("tool_choice") or "auto",
        "tools": list(tools.shown),
        "top_logprobs": fields.top_logprobs or 0,
        "truncation": "auto" if fields.truncation == "auto" else "disabled",
        "user": _text_or_none(raw.get("user")),
        "store": stores,
    }


def _repeated_format(raw: dict[str, Any] | None) -> dict[str, Any]:
    if raw is None:
        return {"type": "text"}
    inner = raw.get("json_schema")
    if raw.get("type") == "json_schema" and isinstance(inner, dict):  # chat's shape
        raw = {"type": "json_schema", **inner}
    if raw.get("type") == "json_schema":
        return {"name": "response", "description": None, "strict": False, **raw}
    return raw


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
