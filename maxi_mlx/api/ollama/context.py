"""``context`` of ``/api/generate``: the conversation so far, as numbers that a client sends back.

In Ollama they are token ids. Here they are the messages themselves, three bytes of JSON a number:
so the model's template sees a whole conversation, and goes on rightly with what follows. To clients
the numbers mean nothing either way, and there are about as many.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import IMAGE_MARK, Message, Role

# Told apart from token ids, which no vocabulary has so large; the last digit is the form's version.
_MARK = 0x4D58_0001
_BYTES = 3


class _Turn(msgspec.Struct, frozen=True, array_like=True):
    role: Role
    text: str


_TURNS = msgspec.json.Decoder(list[_Turn])


def encode_context(messages: Sequence[Message]) -> list[int]:
    # Without images, which would make it megabytes long.
    turns = [_Turn(message.role, _plain(message.text or "")) for message in messages]
    data = msgspec.json.encode(turns)
    data += b" " * (-len(data) % _BYTES)  # JSON may end in blanks
    places = range(0, len(data), _BYTES)
    return [_MARK, *(int.from_bytes(data[place : place + _BYTES]) for place in places)]


def _plain(text: str) -> str:
    return text.replace(IMAGE_MARK, "")


def decode_context(numbers: Sequence[int]) -> tuple[Message, ...]:
    """The messages, none for an empty context. Raises `InvalidRequest`."""
    if not numbers:
        return ()
    try:
        if numbers[0] != _MARK:
            raise ValueError("not ours")
        data = b"".join(number.to_bytes(_BYTES) for number in numbers[1:])
        turns = _TURNS.decode(data)
    except (ValueError, OverflowError, RecursionError):  # msgspec's errors are ValueErrors
        raise InvalidRequest(
            "'context' is not one that this server's /api/generate gave: send back the numbers of "
            "an answer as they came, or use /api/chat.",
            param="context",
        ) from None
    return tuple(Message(role=turn.role, text=turn.text) for turn in turns)
