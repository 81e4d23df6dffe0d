"""What a long job tells whoever waits for it. Knows nothing of terminals."""

from __future__ import annotations

from typing import Literal, Protocol

Unit = Literal["bytes", "tensors"]


class Progress(Protocol):
    """One job at a time: ``start``, any number of ``advance``, ``done``.

    A second ``start`` without ``done`` begins the job anew, as a download does that could not go
    on where it was.
    """

    def start(self, label: str, total: int, *, unit: Unit, already: int = 0) -> None:
        """``already`` of the ``total`` were done by an earlier run and don't count as speed."""

    def advance(self, amount: int) -> None: ...

    def done(self) -> None: ...

    def say(self, text: str) -> None:
        """A sentence for the user, between or within jobs."""
