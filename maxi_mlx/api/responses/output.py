"""Events to the items of a response, one after the other, with what a stream says of each.

A machine: it is fed events and gives back the wire's events, still without their numbers; the
items so far are its state. A whole answer is its last state, so that the two can't differ.

    reasoning ─► message ─► function_call ─► function_call ─► …
    each: output_item.added, its own deltas, its own done, output_item.done
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from maxi_mlx.api.openai.answer_schema import ScoredToken
from maxi_mlx.api.openai.logprobs import chat_logprobs
from maxi_mlx.api.responses.answer_schema import ItemStatus, OutputItem, Part
from maxi_mlx.api.responses.names import CUSTOM_INPUT, WireName
from maxi_mlx.core.events import TokenLogprob

WireEvent = dict[str, Any]


class OutputItems:
    """The items of one response. ``hex_id`` makes their ids; ``sends_summary``: thoughts go out
    as summaries."""

    def __init__(
        self, *, hex_id: str, names: Mapping[str, WireName], sends_summary: bool, logprobs: bool
    ) -> None:
        self.items: list[OutputItem] = []
        self._hex_id = hex_id
        self._names = names
        self._sends_summary = sends_summary
        self._has_logprobs = logprobs
        self._pieces: list[str] = []  # of the item that is open
        self._tokens: list[ScoredToken] = []
        self._is_open = False

    # -- what the events add -------------------------------------------------------------------

    def text(self, text: str, tokens: tuple[TokenLogprob, ...]) -> Iterator[WireEvent]:
        logprobs = chat_logprobs(tokens)["content"] if self._has_logprobs else []
        if not text and not logprobs:
            return
        if not self._is_open_of("message"):
            yield from self.close()
            yield from self._open_message()
        self._pieces.append(text)
        self._tokens += logprobs
        yield self._event("output_text.delta", content_index=0, delta=text, logprobs=logprobs)

    def thought(self, text: str) -> Iterator[WireEvent]:
        if not text:
            return
        if not self._is_open_of("reasoning"):
            yield from self.close()
            yield from self._open_thought()
        self._pieces.append(text)
        if self._sends_summary:
            yield self._event("reasoning_summary_text.delta", summary_index=0, delta=text)
        else:
            yield self._event("reasoning_text.delta", content_index=0, delta=text)

    def call(self, call_id: str, name: str) -> Iterator[WireEvent]:
        yield from self.close()
        wire = self._names.get(name, WireName(name=name))
        item: OutputItem
        if wire.is_custom:
            item = {
                "type": "custom_tool_call",
                "id": self._id("ctc"),
                "call_id": call_id,
                "name": wire.name,
                "input": "",
                "status": "in_progress",
            }
        else:
            item = {
                "type": "function_call",
                "id": self._id("fc"),
                "call_id": call_id,
                "name": wire.name,
                "arguments": "",
                "status": "in_progress",
            }
        if wire.namespace is not None:
            item["namespace"] = wire.namespace
        yield self._open(item)

    def arguments(self, text: str) -> Iterator[WireEvent]:
        if not text:
            return
        self._pieces.append(text)
        # A custom tool's text is inside of JSON, and is read when it is whole.
        if self.items[-1]["type"] == "function_call":
            yield self._event("function_call_arguments.delta", delta=text)

    def close(self, status: ItemStatus = "completed") -> Iterator[WireEvent]:
        """Ends the item that is open, if one is."""
        if not self._is_open:
            return
        self._is_open = False
        item = self.items[-1]
        text = "".join(self._pieces)
        match item["type"]:
            case "message":
                part = _text_part(text, self._tokens)
                item["content"] = [part]
                yield self._event(
                    "output_text.done", content_index=0, text=text, logprobs=self._tokens
                )
                yield self._event("content_part.done", content_index=0, part=part)
            case "reasoning":
                yield from self._close_thought(item, text)
            case "function_call":
                item["arguments"] = text
                yield self._event("function_call_arguments.done", arguments=text, name=item["name"])
            case _:
                item["input"] = text = _custom_input(text)
                yield self._event("custom_tool_call_input.delta", delta=text)
                yield self._event("custom_tool_call_input.done", input=text)
        item["status"] = status
        yield self._item_event("output_item.done")

    def no_words(self) -> Iterator[WireEvent]:
        """An answer of no words and no calls is a message all the same."""
        if not any(item["type"] != "reasoning" for item in self.items):
            yield from self.close()
            yield from self._open_message()

    def snapshot(self) -> list[OutputItem]:
        """The items, the open one as far as it is there."""
        if not self._is_open:
            return list(self.items)
        item, text = self.items[-1].copy(), "".join(self._pieces)
        match item["type"]:
            case "message":
                item["content"] = [_text_part(text, list(self._tokens))]
            case "reasoning":
                self._think(item, text)
            case "function_call":
                item["arguments"] = text
            case _:
                pass
        return [*self.items[:-1], item]

    # -- opening and closing -------------------------------------------------------------------

    def _open(self, item: OutputItem) -> WireEvent:
        self.items.append(item)
        self._pieces, self._tokens = [], []
        self._is_open = True
        return self._item_event("output_item.added")

    def _open_message(self) -> Iterator[WireEvent]:
        yield self._open(
            {
                "type": "message",
                "id": self._id("msg"),
                "role": "assistant",
                "content": [],
                "status": "in_progress",
            }
        )
        yield self._event("content_part.added", content_index=0, part=_text_part("", []))

    def _open_thought(self) -> Iterator[WireEvent]:
        item: OutputItem = {
            "type": "reasoning",
            "id": self._id("rs"),
            "summary": [],
            "status": "in_progress",
        }
        if not self._sends_summary:
            item["content"] = []
        yield self._open(item)
        if self._sends_summary:
            yield self._event("reasoning_summary_part.added", summary_index=0, part=_summary(""))
        else:
            yield self._event("content_part.added", content_index=0, part=_thought(""))

    def _close_thought(self, item: OutputItem, text: str) -> Iterator[WireEvent]:
        self._think(item, text)
        if self._sends_summary:
            yield self._event("reasoning_summary_text.done", summary_index=0, text=text)
            yield self._event("reasoning_summary_part.done", summary_index=0, part=_summary(text))
        else:
            yield self._event("reasoning_text.done", content_index=0, text=text)
            yield self._event("content_part.done", content_index=0, part=_thought(text))

    def _think(self, item: OutputItem, text: str) -> None:
        if self._sends_summary:
            item["summary"] = [_summary(text)]
        else:
            item["content"] = [_thought(text)]

    def _is_open_of(self, kind: str) -> bool:
        return self._is_open and self.items[-1]["type"] == kind

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._hex_id}o{len(self.items)}"

    def _event(self, kind: str, **more: Any) -> WireEvent:
        item_id = self.items[-1]["id"]
        place = {"item_id": item_id, "output_index": len(self.items) - 1}
        return {"type": f"response.{kind}", **place, **more}

    def _item_event(self, kind: str) -> WireEvent:
        item = dict(self.items[-1])
        return {"type": f"response.{kind}", "output_index": len(self.items) - 1, "item": item}


def _text_part(text: str, logprobs: list[ScoredToken]) -> Part:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def _summary(text: str) -> Part:
    return {"type": "summary_text", "text": text}


def _thought(text: str) -> Part:
    return {"type": "reasoning_text", "text": text}


def _custom_input(arguments: str) -> str:
    """The one text in the arguments; what isn't as it should be stays as the model wrote it."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = value.get(CUSTOM_INPUT) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments
