"""What requests ask and what they are answered, in the log (``--log-prompts``): a line each, by the
request's id.

Nothing else in the program writes what people say into a log.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from maxi_mlx.core.embedding import EmbeddingRequest, ScoreRequest
from maxi_mlx.core.events import (
    Event,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from maxi_mlx.core.request import (
    ChatPrompt,
    GenerateRequest,
    Message,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from maxi_mlx.core.transcription import SegmentWritten, TranscriptionEvent, TranscriptionRequest

logger = logging.getLogger("maxi_mlx.prompts")

AnyRequest = GenerateRequest | EmbeddingRequest | ScoreRequest | TranscriptionRequest


@dataclass(slots=True)
class _Call:
    name: str
    arguments: str = ""


@dataclass(slots=True)
class _Answer:
    reasoning: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    reason: str | None = None

    def plain(self, choice: int) -> dict[str, Any]:
        said = {
            "reasoning": "".join(self.reasoning),
            "text": "".join(self.text),
            "tool_calls": msgspec.to_builtins(self.calls),
            "reason": self.reason,
        }
        return {"choice": choice, **_without_empty(said)}


class PromptLog:
    """Of one request. Lives on the event loop."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._answers: defaultdict[int, _Answer] = defaultdict(_Answer)

    def prompt(self, request: AnyRequest) -> None:
        self._write("prompt", _asked(request))

    def observe(self, event: Event | TranscriptionEvent) -> None:
        match event:
            case TextDelta():
                self._answers[event.choice].text.append(event.text)
            case ReasoningDelta():
                self._answers[event.choice].reasoning.append(event.text)
            case ToolCallStart():
                self._answers[event.choice].calls.append(_Call(event.name))
            case ToolCallDelta():
                self._answers[event.choice].calls[event.index].arguments += event.arguments
            case Finished():
                self._answers[event.choice].reason = event.reason
            case SegmentWritten():
                self._answers[0].text.append(event.segment.text)
            case _:
                pass

    def close(self) -> None:
        """At the request's end, with as much of the answer as there was."""
        answers = [answer.plain(choice) for choice, answer in sorted(self._answers.items())]
        self._write("answer", answers)

    def _write(self, name: str, words: Any) -> None:
        if words and logger.isEnabledFor(logging.INFO):
            fields = {name: words, "request": self._request_id}
            text = f"{name}={_line(words)} request={self._request_id}"
            logger.info("%s", text, extra={"fields": fields})


def _asked(request: AnyRequest) -> Any:
    match request:
        case GenerateRequest():
            return [words for prompt in request.prompts if (words := _words(prompt))]
        case EmbeddingRequest():
            return list(request.inputs)
        case ScoreRequest():
            return {"queries": request.queries, "documents": request.documents}
        case TranscriptionRequest():
            said = {"prompt": request.prompt, "keywords": request.keywords}
            return _without_empty(said)


def _words(prompt: Prompt) -> Any:
    match prompt:
        case ChatPrompt():
            asked = {
                "messages": [_said(message) for message in prompt.messages],
                "tools": [_without_empty(msgspec.to_builtins(tool)) for tool in prompt.tools],
                "prefill": prompt.prefill,
            }
            return _without_empty(asked)
        case TextPrompt(text, None):
            return text
        case TextPrompt(text, suffix):
            return {"text": text, "suffix": suffix}
        case TokenPrompt(token_ids):
            return token_ids


def _said(message: Message) -> dict[str, Any]:
    """Images by their sizes: there may be megabytes of them."""
    images = [{"num_bytes": len(image.data)} for image in message.images]
    said = msgspec.to_builtins(replace(message, images=()))
    return _without_empty({**said, "images": images})


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _line(words: Any) -> str:
    """JSON in one line, which can neither break it nor command a terminal."""
    text = json.dumps(words, ensure_ascii=False)
    hidden = (character for character in set(text) if not character.isprintable())
    return text.translate({ord(character): json.dumps(character)[1:-1] for character in hidden})
