"""What the device thread asks of a loaded model, whatever it does: texts, vectors, speech.

A model's work is steps, slices, or both. A *step* serves all answers that are being written, and
is short; a *slice* is a part of something longer (a prompt, a batch of inputs, a window of sound),
about as long as it is told to be. `rota.py` shares the device between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from maxi_mlx.core.errors import MaxiError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.mailbox import Outbox
from maxi_mlx.kv_cache.counts import CacheStats


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFigures:
    """One model's figures, as of the last reading. ``namespace`` is its place in the prefix cache,
    if it has one."""

    num_running: int
    num_waiting: int
    fault: str | None
    kv_cache_bytes: int = 0
    num_prefill_tokens: int = 0
    namespace: str | None = None
    prefixes: CacheStats = field(default_factory=CacheStats)


class DeviceWork(Protocol):
    """Lives on the device thread. News goes into the outbox, and leaves when the turn is over."""

    @property
    def entry(self) -> ModelEntry: ...

    @property
    def has_work(self) -> bool:
        """Whether there is anything to do now, or soon without being told."""

    @property
    def num_decoding(self) -> int:
        """Answers that a step is for."""

    @property
    def num_wanting(self) -> int:
        """Things that want a slice."""

    @property
    def worthwhile_slice_s(self) -> float:
        """Of a shorter slice, much would be what any slice costs, and many wait for the next ones;
        0 where that is no matter."""

    @property
    def is_waiting_for_disk(self) -> bool: ...

    def prepare(self, outbox: Outbox) -> None:
        """Drops who left and lets in who waits. Comes first in every turn."""

    def decode(self, outbox: Outbox) -> None:
        """One step of every answer."""

    def settle(self, outbox: Outbox) -> None:
        """Waits for the steps under way, and hands out what they brought."""

    def read(self, slice_s: float, outbox: Outbox) -> None:
        """One slice of about ``slice_s`` seconds."""

    def guarded(self, work: Callable[[Outbox], None], outbox: Outbox) -> None:
        """Does one of the above. Whatever escapes it ends this model's requests, and no more."""

    def fail_all(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        """Ends every request of this model, the waiting ones too."""

    @property
    def promised_bytes(self) -> int:
        """What it was found to have room for and has not taken yet."""

    @property
    def newest_s(self) -> float | None:
        """When the newest of the requests came that hold memory; None: there is none."""

    def fail_newest(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        """Ends that request, since the memory is at its end."""

    def figures(self) -> WorkFigures: ...

    def close(self) -> None:
        """The model is being unloaded: nothing runs any more."""
