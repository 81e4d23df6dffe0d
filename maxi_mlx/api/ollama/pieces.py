"""The parts of an answer that streams and whole answers share: calls, counts, endings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from maxi_mlx.api.ollama.answer_schema import CalledTool, Ending
from maxi_mlx.api.openai.answer_schema import ScoredToken
from maxi_mlx.api.openai.logprobs import chat_logprobs
from maxi_mlx.core.events import Completed, Finished, TokenLogprob

_NANOSECONDS = 1_000_000_000


class CallGatherer:
    """Puts calls together: here they travel whole, with arguments that are an object.

    What a limit cut in the middle is no call, and is left out: a client would run it.
    """

    def __init__(self) -> None:
        self._id = ""
        self._name = ""
        self._pieces: list[str] | None = None  # of the open call's arguments
        self._num_calls = 0

    def start(self, call_id: str, name: str) -> list[CalledTool]:
        """Begins a call; gives the one before, if there is one."""
        done = self.finish()
        self._id, self._name, self._pieces = call_id, name, []
        return done

    def add(self, arguments: str) -> None:
        assert self._pieces is not None, "arguments come after their call's start"
        self._pieces.append(arguments)

    def finish(self) -> list[CalledTool]:
        if self._pieces is None:
            return []
        arguments = _object("".join(self._pieces))
        self._pieces = None
        if arguments is None:
            return []
        index = self._num_calls
        self._num_calls += 1
        called: CalledTool = {
            "id": self._id,
            "function": {"index": index, "name": self._name, "arguments": arguments},
        }
        return [called]


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def ending(finished: Finished, completed: Completed) -> Ending:
    """The last object's fields."""
    timings, usage = completed.timings, completed.usage
    return {
        "done": True,
        "done_reason": "length" if finished.reason == "length" else "stop",
        "total_duration": nanoseconds(timings.queue_s + timings.prefill_s + timings.decode_s),
        "load_duration": nanoseconds(timings.load_s),
        "prompt_eval_count": usage.prompt_tokens,
        "prompt_eval_duration": nanoseconds(timings.prefill_s),
        "eval_count": usage.completion_tokens,
        "eval_duration": nanoseconds(timings.decode_s),
    }


def nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)


def logprobs(tokens: Sequence[TokenLogprob]) -> list[ScoredToken]:
    """The shape is that of OpenAI's chat."""
    return chat_logprobs(tokens)["content"]
