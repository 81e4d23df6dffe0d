"""What is known of one request by its end. Knows neither HTTP nor how it is logged."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

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
)
from maxi_mlx.core.transcription import Transcribed, TranscriptionEvent, TranscriptionStarted
from maxi_mlx.server.prompt_log import AnyRequest, PromptLog


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """What the log says of one request, and the metrics count. Lives on the event loop; owned by
    its request.

    ``asked_model`` is the name in the request, whatever it is; ``model`` the id of the one that
    answers, once that is known. ``prompt_tokens`` are read by a model, ``counted_tokens`` are not.
    ``completion_tokens`` is exact once all is complete. Of an answer that breaks off it is the
    number of its pieces of text, of which a token makes one or, seldom, none.
    """

    method: str
    path: str
    id: str = field(default_factory=lambda: f"req-{uuid.uuid4().hex}")
    protocol: str | None = None
    asked_model: str | None = None
    model: str | None = None
    counted_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    queue_s: float | None = None
    first_token_s: float | None = None
    token_s: float | None = None  # between two tokens of the answer
    audio_s: float | None = None  # of the recording that was sent
    audio_per_second: float | None = None
    reason: str | None = None
    error: str | None = None  # what a failure of ours was; a client's mistake only the client reads
    status: int | None = None
    started_at: float = field(default_factory=time.monotonic)
    # While it lasts: how much of its prompt is read, and when its first token came.
    read_tokens: int | None = None
    first_token_at: float | None = None
    prompt_log: PromptLog | None = None
    goes_on: bool = False  # in the background, whose end is the record's

    def observe_request(self, request: AnyRequest) -> None:
        self.asked_model = request.model or None
        if self.prompt_log is not None:
            self.prompt_log.prompt(request)

    def observe(self, event: Event | TranscriptionEvent) -> None:
        if self.prompt_log is not None:
            self.prompt_log.observe(event)
        match event:
            case TranscriptionStarted():
                self.model = event.model
                self.audio_s = event.duration_s
            case Transcribed():
                self.reason = "stop"
                self.audio_per_second = event.duration_s / max(event.elapsed_s, 1e-3)
            case Started():
                self.model = event.model
                self.prompt_tokens = event.prompt_tokens
            case PrefillProgress():
                self.read_tokens = event.processed_tokens
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                self.completion_tokens = (self.completion_tokens or 0) + 1
                self.first_token_at = self.first_token_at or time.monotonic()
            case Finished():
                self.reason = event.reason
            case Completed():
                self._observe_totals(event)
            case Failed():
                self.observe_error(event.error)
            case _:
                pass

    def observe_error(self, error: MaxiError) -> None:
        self.reason = error.code or error.kind
        if error.status >= 500:
            self.error = error.message

    def _observe_totals(self, event: Completed) -> None:
        self.prompt_tokens = event.usage.prompt_tokens
        self.cached_tokens = event.usage.cached_tokens
        self.completion_tokens = event.usage.completion_tokens
        self.queue_s = event.timings.queue_s
        self.first_token_s = event.timings.first_token_s
        # The clock starts with the first token, which so costs nothing of this time.
        num_later = event.usage.completion_tokens - 1
        if event.timings.decode_s > 0 and num_later > 0:
            self.token_s = event.timings.decode_s / num_later

    def fields(self) -> dict[str, str | int | float]:
        """What is known, by the names that the JSON log uses; what people look for comes first."""
        known = {
            "model": self.model or self.asked_model or None,
            "status": self.status,
            "counted_tokens": self.counted_tokens,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "tokens_per_second": _rounded(1 / self.token_s if self.token_s else None),
            "audio_s": _rounded(self.audio_s),
            "audio_per_second": _rounded(self.audio_per_second),
            "reason": self.reason,
            "first_token_s": _rounded(self.first_token_s),
            "queue_s": _rounded(self.queue_s),
            "total_s": _rounded(time.monotonic() - self.started_at),
            "protocol": self.protocol,
            "method": self.method,
            "path": self.path,
            "error": self.error,
            "request": self.id,
        }
        return {name: value for name, value in known.items() if value is not None}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
