"""Loads make room one by one, a base within the turn of what goes over it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.room_turn import RoomTurn

ONE = ModelEntry(
    id="one",
    path=Path("/one"),
    kind="language",
    org_name=None,
    source="tests",
    model_type=None,
    architecture=None,
    weight_bytes=1,
    quantization=None,
    context_length=None,
    created=0,
)
TWO, THREE = replace(ONE, id="two"), replace(ONE, id="three")
OVER_TWO = replace(TWO, id="two:poet", base=TWO)


class Log:
    """Has loads wait for their turn, and notes who is in."""

    def __init__(self) -> None:
        self.turn = RoomTurn()
        self.inside: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *entries: ModelEntry) -> None:
        for entry in entries:
            self.ends[entry.id] = asyncio.Event()
            self.tasks[entry.id] = asyncio.create_task(self._load(entry))
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def end(self, id: str) -> None:
        self.ends[id].set()
        await self.tasks[id]
        await asyncio.sleep(0)

    async def _load(self, entry: ModelEntry) -> None:
        async with self.turn.of(entry):
            self.inside.append(entry.id)
            await self.ends[entry.id].wait()
            self.inside.remove(entry.id)


async def test_in_order_and_a_base_within_its_adapters_turn() -> None:
    log = Log()
    await log.come(ONE, OVER_TWO, THREE, TWO)
    assert log.inside == ["one"]
    await log.end("one")
    assert log.inside == ["two:poet", "two"]
    await log.end("two")
    assert log.inside == ["two:poet"]
    await log.end("two:poet")
    assert log.inside == ["three"]


async def test_who_is_cancelled_leaves_its_place() -> None:
    log = Log()
    await log.come(ONE, TWO, THREE)
    log.tasks["two"].cancel()
    await asyncio.sleep(0)
    log.tasks["one"].cancel()  # while it is in
    for _ in range(3):
        await asyncio.sleep(0)
    assert log.inside[-1] == "three"
    # Let in and cancelled at once.
    await log.come(ONE)
    log.ends["three"].set()
    await log.tasks["three"]
    log.tasks["one"].cancel()
    await log.come(TWO)
    assert log.inside[-1] == "two"
