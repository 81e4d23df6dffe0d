"""The Responses API's ``input`` to messages of the core, for clients that send it to chat."""

from __future__ import annotations

from dataclasses import replace

from maxi_mlx.api.openai.messages import function_call, message, tool_result
from maxi_mlx.api.openai.schema import FunctionCall, InputItem, ResponsesBody
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Message


def input_messages(body: ResponsesBody) -> tuple[Message, ...]:
    """``instructions`` and ``input`` as one conversation."""
    found: list[Message] = []
    if body.instructions:
        found.append(Message(role="system", text=body.instructions))
    if isinstance(body.input, str):
        found.append(Message(role="user", text=body.input))
        return tuple(found)
    if not body.input:
        raise InvalidRequest("'input' is empty; send at least one message.", param="input")
    for index, item in enumerate(body.input):
        _add(found, item, f"input[{index}]")
    if not found:
        raise InvalidRequest("'input' holds no message.", param="input")
    return tuple(found)


def _add(found: list[Message], item: InputItem, path: str) -> None:
    match item.type:
        case None | "message":
            found.append(message(item, path))
        case "function_call":
            _add_call(found, item, path)
        case "function_call_output":
            found.append(tool_result(item.output, f"{path}.output", call_id=item.call_id))
        case "reasoning":
            pass  # a summary, or text that only its maker can decrypt
        case unknown:
            raise InvalidRequest(
                f"'{path}.type' is {unknown[:40]!r}; this version takes messages, function "
                "calls and their outputs.",
                param=f"{path}.type",
            )


def _add_call(found: list[Message], item: InputItem, path: str) -> None:
    """Calls are items of their own here; a chat template wants them on the assistant's turn."""
    call = function_call(
        FunctionCall(name=item.name, arguments=item.arguments), path, call_id=item.call_id or ""
    )
    if found and found[-1].role == "assistant":
        found[-1] = replace(found[-1], tool_calls=(*found[-1].tool_calls, call))
    else:
        found.append(Message(role="assistant", text=None, tool_calls=(call,)))
