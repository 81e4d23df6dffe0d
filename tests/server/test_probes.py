"""``/health/live`` and ``/health/ready``: what whoever starts and balances servers goes by."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine import language_model
from maxi_mlx.server import health
from tests.server.asking import until
from tests.server.running import Client, Start

OK = {"status": "ok"}


async def probed(client: Client) -> tuple[int, int]:
    live, ready = await client.get("/health/live"), await client.get("/health/ready")
    for answer in (live, ready):
        assert (answer.status == 200) == (answer.json == OK)
        assert answer.status == 200 or answer.json["reason"]
    return live.status, ready.status


async def test_a_server_is_ready_once_its_model_is_loaded(
    start: Start, scripted_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    real = language_model._load_tokenizer

    def waiting(folder: Path) -> object:
        assert go_on.wait(60)
        return real(folder)

    monkeypatch.setattr(language_model, "_load_tokenizer", waiting)
    settings = Settings(pins=("scripted",), api_keys=("k",))
    client = await start(settings, Root(scripted_model, "tests", "folders"))
    try:
        assert await probed(client) == (200, 503)
        assert (await client.get("/health/ready")).json["status"] == "starting"
    finally:
        go_on.set()
    await client.engine.wait_ready()
    assert await probed(client) == (200, 200)


async def test_a_draining_server_lives_and_is_not_ready(start: Start) -> None:
    client = await start()
    await client.engine.wait_ready()
    await client.engine.drain(0.1)
    assert await probed(client) == (200, 503)
    assert (await client.get("/health/ready")).json["status"] == "draining"


async def test_a_device_that_hangs_is_not_ready(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await start()
    await client.engine.wait_ready()
    go_on = threading.Event()
    client.engine._device.post(lambda: go_on.wait(60))  # type: ignore[arg-type, return-value]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(health, "DEVICE_PATIENCE_S", 0.1)
            assert await probed(client) == (200, 503)
        assert (await client.get("/health")).status == 200  # which asks nothing of the device
    finally:
        go_on.set()
    assert await probed(client) == (200, 200)


async def test_a_device_thread_that_has_ended_is_dead(start: Start) -> None:
    client = await start(Settings(api_keys=("k",)))
    await client.engine.wait_ready()

    def breaks() -> None:
        raise RuntimeError("a secret of the machine's")

    client.engine._device._turn = breaks  # type: ignore[method-assign, assignment]
    client.engine._device.post(lambda: None)
    await until(lambda: not client.engine.is_alive)
    assert not await client.engine.answers_within(5)
    assert await probed(client) == (503, 503)
    for path in ("/health/live", "/health/ready"):
        assert b"secret" not in (await client.get(path)).body
        assert b"secret" in (await client.get(path, headers={"x-api-key": "k"})).body


async def test_a_model_that_could_not_be_loaded_keeps_the_server_from_being_ready(
    start: Start,
) -> None:
    client = await start(Settings(model="not-here"))
    with pytest.raises(Exception, match="not-here"):
        await client.engine.wait_ready()
    assert await probed(client) == (200, 503)
    assert "not-here" in (await client.get("/health/ready")).json["reason"]
