"""One tool call in the making: holds back what is written of it until it surely is a call."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable

from maxi_mlx.text.pieces import CallDelta, CallEnd, CallStart, Piece
from maxi_mlx.text.source import Reading
from maxi_mlx.text.tool_calls.json_copier import JsonCopier, Malformed

_ALPHABET = string.ascii_letters + string.digits
_NAME = re.compile(r"[\w.:/-]{1,200}")


def new_call_id() -> str:
    return "call_" + "".join(secrets.choice(_ALPHABET) for _ in range(24))


def is_name(text: str) -> bool:
    """Whether a tool may be called so."""
    return _NAME.fullmatch(text) is not None


class Call:
    """Becomes known (`has_begun`) once it has a name and its first argument's value has begun, or
    its arguments have ended. Until then it may turn out to be no call, and nothing was told. Where
    the id comes last (``has_late_id``), it begins when it ends. ``claim_id`` gives it another id
    where the written one can't be its own."""

    def __init__(
        self,
        tell: Callable[[Piece], None],
        *,
        index: int,
        claim_id: Callable[[str], str],
        on_begin: Callable[[], None],
        on_end: Callable[[], None],
        name: str = "",
        id: str = "",
        has_late_id: bool = False,
    ) -> None:
        self._tell = tell
        self._index = index
        self._claim_id = claim_id
        self._on_begin = on_begin
        self._on_end = on_end
        self.name = name
        self.id = id
        self._has_late_id = has_late_id
        self._waiting: list[str] = []
        self._num_written = 0
        self.has_begun = False
        self.has_ended = False

    @property
    def has_arguments(self) -> bool:
        return self._num_written > 0

    def write(self, text: str) -> None:
        """More of the arguments' JSON text. The first piece is the opening bracket alone."""
        if not text:
            return
        self._num_written += 1
        if self.has_begun:
            self._tell(CallDelta(self._index, text))
            return
        self._waiting.append(text)
        self._begin_if_sure()

    def named(self, name: str) -> None:
        self.name = name
        self._begin_if_sure()

    def copy(self, copier: JsonCopier, *, after: str = "") -> Reading[bool]:
        """Lets ``copier`` write into the arguments; says whether it came to its end. Where it can't
        and the call has begun, the call is ended, closed by brackets if it can be; ``after`` is
        what the arguments need besides."""
        try:
            yield from copier.value()
        except Malformed as problem:
            if not self.has_begun:
                raise
            if problem.is_inside:
                self.end(is_whole=False)
            else:
                self.write(copier.closing() + after)
                self.end()
            return False
        return True

    def end(self, *, is_whole: bool = True) -> None:
        """The call's own text has ended; one without a name is none."""
        if self.has_ended:
            return
        if not self.has_begun:
            if not self.name:
                raise Malformed
            if not self._waiting:
                self._waiting.append("{}")
            self._begin()
        self.has_ended = True
        self._tell(CallEnd(self._index, is_whole))
        self._on_end()

    def _begin_if_sure(self) -> None:
        if self._num_written > 1 and self.name and not self._has_late_id:
            self._begin()

    def _begin(self) -> None:
        self.has_begun = True
        self._on_begin()
        self._tell(CallStart(self._index, self._claim_id(self.id), self.name))
        self._tell(CallDelta(self._index, "".join(self._waiting)))
        self._waiting.clear()
