"""Messages of the wire to messages of the core. Images are base64 beside the text.

Many of Ollama's clients keep no ids of calls: results belong to the calls before them by the tool's
name, or by their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from maxi_mlx.api.ollama.schema import MessageItem
from maxi_mlx.api.openai.images import image_of_base64, image_of_url, joined
from maxi_mlx.api.openai.messages import tool_call
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Image, Message, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """``prefill`` is how the answer begins, which a last message of the assistant's says."""

    messages: tuple[Message, ...]
    prefill: str | None = None


@dataclass(slots=True)
class _Calls:
    """The calls so far, and those that have no result yet."""

    num_calls: int = 0
    open: list[ToolCall] = field(default_factory=list)

    def made(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls, all with ids."""
        named = []
        for call in calls:
            self.num_calls += 1
            named.append(ToolCall(call.id or f"call_{self.num_calls}", call.name, call.arguments))
        self.open = list(named)
        return tuple(named)

    def answered(self, item: MessageItem) -> ToolCall | None:
        """The call that a result is of, where there is one."""
        if item.tool_call_id:
            found = [call for call in self.open if call.id == item.tool_call_id]
        else:
            found = [call for call in self.open if item.tool_name in (None, "", call.name)]
        if not found:
            return None
        self.open.remove(found[0])
        return found[0]


def conversation(items: Sequence[MessageItem]) -> Conversation:
    calls = _Calls()
    messages = tuple(
        _message(item, f"messages[{index}]", calls) for index, item in enumerate(items)
    )
    last = messages[-1]
    if last.role != "assistant" or last.tool_calls or not last.text:
        return Conversation(messages=messages)
    if len(messages) == 1:
        raise InvalidRequest(
            "'messages' has nothing to answer: its only message is the assistant's.",
            param="messages",
        )
    return Conversation(messages=messages[:-1], prefill=last.text)


def user_message(text: str, images: Sequence[object] | None, path: str) -> Message:
    """Images stand before the text, as in Ollama's own prompts."""
    found = [_image(image, f"{path}[{index}]") for index, image in enumerate(images or ())]
    said = joined([*found, text])
    return Message(role="user", text=said.text, images=said.images)


def _image(image: object, path: str) -> Image:
    if not isinstance(image, str):
        raise InvalidRequest(f"'{path}' must be a string, an image in base64.", param=path)
    if image.startswith("data:"):
        return image_of_url(image, path)
    return image_of_base64(image, path)


def _refuse_images(images: Sequence[object] | None, path: str) -> None:
    if images:
        raise InvalidRequest(
            f"'{path}' has images, which only a message of the user's or a tool's may hold.",
            param=path,
        )


def _message(item: MessageItem, path: str, calls: _Calls) -> Message:
    text, images = item.content or "", f"{path}.images"
    if item.role in ("system", "assistant"):
        _refuse_images(item.images, images)
    match item.role:
        case "system":
            return Message(role="system", text=text)
        case "user":
            return user_message(text, item.images, images)
        case "assistant":
            made = [
                tool_call(call, f"{path}.tool_calls[{index}]")
                for index, call in enumerate(item.tool_calls or ())
            ]
            return Message(
                role="assistant",
                # None says "only calls"; an assistant who said nothing at all said the empty text.
                text=text or (None if made else ""),
                reasoning=item.thinking or None,
                tool_calls=calls.made(made),
            )
        case "tool":
            call = calls.answered(item)
            return replace(
                user_message(text, item.images, images),
                role="tool",
                name=item.tool_name or (call.name if call is not None else None),
                tool_call_id=item.tool_call_id or (call.id if call is not None else None),
            )
        case None:
            raise InvalidRequest(f"'{path}.role' is missing.", param=f"{path}.role")
        case unknown:
            raise InvalidRequest(
                f"'{path}.role' must be system, user, assistant or tool, not {unknown[:40]!r}.",
                param=f"{path}.role",
            )
