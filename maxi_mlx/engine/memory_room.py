"""How much memory may still be taken, by each of the bounds that there are: values alone.

The device's: a share of what it may hold in all (on a Mac, Metal's recommended working set). The
process's: the same share of the machine's memory, less all that the process has. The machine's:
what is free, less a little. Whichever is the tightest counts.
"""

from __future__ import annotations

from dataclasses import dataclass

# Of the machine's memory, what is left to others whatever we may have.
_SPARED_SHARE = 1 / 32


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """The machine's figures, and what MLX had when they were read: what it took since then is
    gone from them as well."""

    total_bytes: int
    available_bytes: int
    footprint_bytes: int  # of this process, without what MLX would use again
    active_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRoom:
    """Below zero at the first mark nothing new begins and stored prefixes go; below zero at the
    second the newest request ends."""

    device_bytes: int
    process_bytes: int
    machine_bytes: int
    promised_bytes: int  # what is not taken yet, and counts as if it were, up to the first mark
    beyond_bytes: int  # from the first mark to the second, of the device and the process
    spared_bytes: int  # the same of the machine

    @property
    def host_bytes(self) -> int:
        return min(self.process_bytes, self.machine_bytes)

    @property
    def left_bytes(self) -> int:
        return min(self.device_bytes, self.host_bytes)

    @property
    def left_at_last_bytes(self) -> int:
        """To the second mark, by what is really taken."""
        own_bytes = min(self.device_bytes, self.process_bytes) + self.beyond_bytes
        return min(own_bytes, self.machine_bytes + self.spared_bytes) + self.promised_bytes

    @property
    def bound(self) -> str:
        """What is the tightest, in words for whoever wants more."""
        if self.left_bytes == self.device_bytes:
            return "of what models may take on this machine"
        if self.left_bytes == self.process_bytes:
            return "of what this process may take"
        return "of the machine's memory, which other programs use too"


def measure_room(
    *, limit_bytes: int, share: float, active_bytes: int, promised_bytes: int, host: HostReading
) -> MemoryRoom:
    """``limit_bytes`` is the device's share for models; ``promised_bytes`` are what loads under way
    and running rows may still take."""
    grown_bytes = active_bytes - host.active_bytes
    footprint_bytes = host.footprint_bytes + grown_bytes
    spared_bytes = int(host.total_bytes * _SPARED_SHARE)
    return MemoryRoom(
        device_bytes=limit_bytes - active_bytes - promised_bytes,
        process_bytes=int(host.total_bytes * share) - footprint_bytes - promised_bytes,
        machine_bytes=host.available_bytes - grown_bytes - promised_bytes - spared_bytes,
        promised_bytes=promised_bytes,
        beyond_bytes=int(limit_bytes * (1 - share) / (2 * share)),
        spared_bytes=spared_bytes,
    )


def gigabytes(num_bytes: int) -> str:
    return f"{max(num_bytes, 0) / 2**30:.1f} GiB"
