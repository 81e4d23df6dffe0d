"""Events to a response: the object that a client gets whole, and the events of its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.api.responses.answer_schema import (
    ErrorItem,
    ResponseObject,
    Status,
    Unused,
    UsageItem,
)
from maxi_mlx.api.responses.output import OutputItems, WireEvent
from maxi_mlx.api.responses.parse import ResponseCall
from maxi_mlx.core.errors import MaxiError
from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    PrefillProgress,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)

# The keys that OpenAI's schema wants even where there is nothing to say.
_UNUSED: Unused = {
    "conversation": None,
    "max_tool_calls": None,
    "prompt": None,
    "prompt_cache_retention": None,
    "service_tier": "default",
}
_TOO_LONG = "context_length_exceeded"


class Response:
    """One response in the making, for one call. ``id`` is the response's, ``created`` in seconds
    since 1970."""

    def __init__(self, call: ResponseCall, *, id: str, created: int, model: str) -> None:
        self.id = id
        self.has_ended = False
        self.is_cancelled = False
        self._call = call
        self.model = model
        self._created = created
        self._completed: int | None = None
        self._status: Status = "in_progress"
        self._error: ErrorItem | None = None
        self._usage: Usage | None = None
        self._is_cut = False
        self._is_announced = False
        self._output = OutputItems(
            hex_id=id.removeprefix("resp_"),
            names=call.names,
            sends_summary=call.sends_summary,
            logprobs=call.request.top_logprobs is not None,
        )

    def cancel(self) -> None:
        """The failure that comes next is what the client asked for."""
        self.is_cancelled = True

    def feed(self, event: Event) -> Iterator[WireEvent]:
        """What a stream says of an event; nothing happens until it is read."""
        if not self._is_announced:
            self._is_announced = True
            yield self._about("created")
            yield self._about("in_progress")
        match event:
            case TextDelta():
                yield from self._output.text(event.text, event.tokens)
            case ReasoningDelta():
                yield from self._output.thought(event.text)
            case ToolCallStart():
                yield from self._output.call(event.id, event.name)
            case ToolCallDelta():
                yield from self._output.arguments(event.arguments)
            case Finished():
                self._is_cut = event.reason == "length"
                yield from self._output.no_words()
                yield from self._output.close("incomplete" if self._is_cut else "completed")
            case Completed():
                yield self._complete(event)
            case Failed():
                yield self._fail(event.error)
            case Started(model):
                self.model = model
            case PrefillProgress():
                pass
            case _:
                assert_never(event)

    def observe(self, event: Event) -> None:
        """The same for one who wants no stream."""
        for _ in self.feed(event):
            pass

    def snapshot(self) -> ResponseObject:
        """The response as it is now, in OpenAI's shape."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "completed_at": self._completed,
            "status": self._status,
            "error": self._error,
            "incomplete_details": {"reason": "max_output_tokens"}
            if self._status == "incomplete"
            else None,
            "model": self.model or "default",
            "output": self._output.snapshot(),
            "usage": None if self._usage is None else usage_object(self._usage),
            **self._call.asked,
            **_UNUSED,
        }

    def body(self) -> bytes:
        return to_json(self.snapshot())

    def _complete(self, event: Completed) -> WireEvent:
        self.has_ended = True
        self._usage = event.usage
        if self._is_cut:
            self._status = "incomplete"
            return self._about("incomplete")
        self._status = "completed"
        took_s = event.timings.first_token_s + event.timings.decode_s
        self._completed = self._created + round(took_s)
        return self._about("completed")

    def _fail(self, error: MaxiError) -> WireEvent:
        self.has_ended = True
        for _ in self._output.close("incomplete"):
            pass  # the item is told of with the response
        if self.is_cancelled:
            self._status = "cancelled"
            return self._about("incomplete")
        self._status = "failed"
        self._error = {"code": _error_code(error), "message": error.message}
        return self._about("failed")

    def _about(self, kind: str) -> WireEvent:
        return {"type": f"response.{kind}", "response": self.snapshot()}


def _error_code(error: MaxiError) -> str:
    """OpenAI's few words for what may become of a response."""
    if error.code == _TOO_LONG:  # some clients shorten the conversation and try again
        return _TOO_LONG
    if error.status == 429:
        return "rate_limit_exceeded"
    return "server_error" if error.status >= 500 else "invalid_prompt"


def usage_object(usage: Usage) -> UsageItem:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
