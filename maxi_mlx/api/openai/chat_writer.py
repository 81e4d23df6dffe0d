"""Events to a chat completion, in chunks or whole.

Thoughts are written under both names that clients look for. They have no log-probabilities: those
belong to the content, and their bytes join into it.
"""

from __future__ import annotations

from typing import Any, assert_never

from maxi_mlx.api.openai.answer import Answer, Call, Choice
from maxi_mlx.api.openai.answer_schema import CalledFunction, ChatLogprobs, ChatMessage
from maxi_mlx.api.openai.logprobs import chat_logprobs
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.api.openai.stream import StreamWriter
from maxi_mlx.core.events import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart


class ChatStreamWriter(StreamWriter):
    object_name = "chat.completion.chunk"
    text_start = b'"delta":{"content":'
    text_end = b"}"
    no_text = b'"delta":{}'

    def start(self) -> bytes:
        """The first chunk of every choice, which names the role."""
        role = b'"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}'
        return b"".join(head + role + b"\n\n" for head in self._heads)

    def _logprobs(self, delta: TextDelta) -> ChatLogprobs:
        return chat_logprobs(delta.tokens)

    def _delta(self, event: ReasoningDelta | ToolCallStart | ToolCallDelta) -> bytes:
        match event:
            case ReasoningDelta(_, text):
                if not text:
                    return b""
                thought = to_json(text)
                return (
                    b'"delta":{"reasoning_content":' + thought + b',"reasoning":' + thought + b"}"
                )
            case ToolCallStart(_, index, call_id, name):
                function: dict[str, str] = {"name": name, "arguments": ""}
                # Later pieces carry neither id nor name: clients join what they are given.
                return self._call({"index": index, "id": call_id, "type": "function"}, function)
            case ToolCallDelta(_, index, arguments):
                if not arguments:
                    return b""
                return self._call({"index": index}, {"arguments": arguments})
            case _:
                assert_never(event)

    def _call(self, head: dict[str, Any], function: dict[str, str]) -> bytes:
        if not self._is_legacy:
            return b'"delta":' + to_json({"tool_calls": [{**head, "function": function}]})
        if head["index"] > 0:
            return b""
        return b'"delta":' + to_json({"function_call": function})


class ChatAnswer(Answer):
    object_name = "chat.completion"

    def _choice(self, choice: Choice) -> dict[str, Any]:
        message: ChatMessage = {
            "role": "assistant",
            # Null says that there are just calls; an answer of no words is the empty text.
            "content": choice.text if choice.text or not choice.calls else None,
            # OpenAI's schema requires the keys that are null here, and some clients check.
            "refusal": None,
            "annotations": [],
        }
        if choice.reasoning:
            message["reasoning_content"] = message["reasoning"] = choice.reasoning
        if choice.calls and self._is_legacy:
            message["function_call"] = _function(choice.calls[0])
        elif choice.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": _function(call)}
                for call in choice.calls
            ]
        return {
            "message": message,
            "logprobs": chat_logprobs(choice.tokens) if self._has_logprobs else None,
        }


def _function(call: Call) -> CalledFunction:
    return {"name": call.name, "arguments": call.arguments}
