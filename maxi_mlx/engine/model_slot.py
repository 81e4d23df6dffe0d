"""One model of the pool, and which of several goes first: decisions alone, nothing waits here.

Lives on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from maxi_mlx.core.keep_alive import FOREVER
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.loading import Handle

# What the owner said of a model: ``kept`` ones have no time to run out and make room last,
# ``pinned`` ones never do.
Hold = Literal["none", "kept", "pinned"]


@dataclass(slots=True, eq=False)
class Slot:
    """A model, loaded or on its way. ``num_users`` requests keep it from being unloaded; with none,
    it stays for ``keep_alive_s`` after ``used_at_s``. ``handle`` is there while it is loaded, which
    is since ``loaded_at_s``; before that, ``has_room`` once its load has begun.

    ``base`` is the one whose weights it shares, of which it is a user from before its load until
    after its end.

    ``is_leaving``: a load that has waited long enough needs its room; those who have it finish, and
    whoever comes now waits until it is loaded again.
    """

    entry: ModelEntry
    keep_alive_s: float
    used_at_s: float
    hold: Hold = "none"
    has_room: bool = False
    handle: Handle | None = None
    loaded_at_s: float | None = None
    num_users: int = 0
    is_leaving: bool = False
    base: Slot | None = None
    loading: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        return self.handle is not None

    @property
    def is_idle(self) -> bool:
        return self.is_ready and not self.num_users

    @property
    def expires_at_s(self) -> float | None:
        """When it goes by itself; None while it is in use, and where it never does."""
        if not self.is_idle or self.hold != "none" or self.keep_alive_s == FOREVER:
            return None
        return self.used_at_s + self.keep_alive_s

    def expires_in_s(self, now_s: float) -> float | None:
        """The same from now on, and of a model in use as if it were used no more."""
        if self.hold != "none" or self.keep_alive_s == FOREVER:
            return None
        since_s = self.used_at_s if self.is_idle else now_s
        return max(since_s + self.keep_alive_s - now_s, 0.0)

    @property
    def worth(self) -> tuple[bool, float]:
        """The least is the first to make room."""
        return self.hold == "kept", self.used_at_s


def first_to_go(slots: Iterable[Slot]) -> Slot | None:
    """Of the idle ones, the one used longest ago."""
    idle = [slot for slot in slots if slot.is_idle and slot.hold != "pinned"]
    return min(idle, key=lambda slot: slot.worth, default=None)


def in_use(slots: Iterable[Slot]) -> list[Slot]:
    """Those whose room comes free once their requests end, in the order in which they would go."""
    busy = [slot for slot in slots if slot.num_users and slot.is_ready and slot.hold != "pinned"]
    return sorted(busy, key=lambda slot: slot.worth)


def is_older(loaded: ModelEntry, now: ModelEntry) -> bool:
    """Whether a model is of the same files as they were before."""
    if loaded.path != now.path:
        return False
    has_older_base = (loaded.base or loaded) != (now.base or now)
    return has_older_base or (loaded.folders == now.folders and loaded != now)


def what_would_help(others: Iterable[Slot]) -> str:
    pinned = [slot.entry.id for slot in others if slot.hold == "pinned"]
    if pinned:
        return f" Pinned models take the rest ({', '.join(pinned)}): start the server without one."
    return " Try again when the running answers are done, or close other programs."
