"""A response that is kept, to a stream of events that makes it: each text in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from maxi_mlx.api.responses.answer_schema import OutputItem
from maxi_mlx.api.responses.output import WireEvent

_ENDS = {
    "completed": "completed",
    "incomplete": "incomplete",
    "cancelled": "incomplete",
    "failed": "failed",
}
_UNKNOWN_YET: Mapping[str, Any] = {
    "status": "in_progress",
    "completed_at": None,
    "error": None,
    "incomplete_details": None,
    "output": [],
    "usage": None,
}


def replayed(response: Mapping[str, Any]) -> Iterator[WireEvent]:
    """The events, without their numbers."""
    begun = {**response, **_UNKNOWN_YET}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        place = {"item_id": item["id"], "output_index": index}
        events = _item(item)
        yield {"type": "response.output_item.added", "output_index": index, "item": next(events)}
        for event in events:
            kind = f"response.{event.pop('type')}"
            yield {"type": kind, **place, **event}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{_ENDS[response['status']]}", "response": response}


def _item(item: OutputItem) -> Iterator[dict[str, Any]]:
    """The item as it begins; then what is said until it is there."""
    begun = {**item, "status": "in_progress"}
    match item["type"]:
        case "function_call":
            yield {**begun, "arguments": ""}
            text = item["arguments"]
            if text:
                yield {"type": "function_call_arguments.delta", "delta": text}
            yield {
                "type": "function_call_arguments.done",
                "arguments": text,
                "name": item["name"],
            }
        case "custom_tool_call":
            yield {**begun, "input": ""}
            yield {"type": "custom_tool_call_input.delta", "delta": item["input"]}
            yield {"type": "custom_tool_call_input.done", "input": item["input"]}
        case _:
            yield {**begun, **{name: [] for name in ("content", "summary") if name in item}}
            for place, part in enumerate(item.get("summary", ())):
                yield from _summary(part, place)
            for place, part in enumerate(item.get("content", ())):
                yield from _part(part, place)


def _summary(part: Mapping[str, Any], place: int) -> Iterator[dict[str, Any]]:
    where, text = {"summary_index": place}, part["text"]
    yield {"type": "reasoning_summary_part.added", **where, "part": {**part, "text": ""}}
    if text:
        yield {"type": "reasoning_summary_text.delta", **where, "delta": text}
    yield {"type": "reasoning_summary_text.done", **where, "text": text}
    yield {"type": "reasoning_summary_part.done", **where, "part": part}


def _part(part: Mapping[str, Any], place: int) -> Iterator[dict[str, Any]]:
    where, text, kind = {"content_index": place}, part["text"], part["type"]
    logprobs = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
    empty = {**part, "text": "", **({"logprobs": []} if logprobs else {})}
    yield {"type": "content_part.added", **where, "part": empty}
    if text or part.get("logprobs"):
        yield {"type": f"{kind}.delta", **where, "delta": text, **logprobs}
    yield {"type": f"{kind}.done", **where, "text": text, **logprobs}
    yield {"type": "content_part.done", **where, "part": part}
