"""POST /api/pull of a hub's models: progress, sharing, leaving; then copies and deleting."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from maxi_mlx.catalog.pull.hub import transfer
from maxi_mlx.catalog.roots import Root, default_roots
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import HUB_DOWNLOADS
from tests.hub import COMMIT, FakeHub, files_of
from tests.server.asking import until
from tests.server.asking_ollama import BOTH, error_of, lines_of
from tests.server.running import Client, Start

NAME = "org/Scripted-4bit"
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="session")
def files(scripted_model: Path) -> dict[str, bytes]:
    return files_of(scripted_model)


@pytest.fixture
def hub(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub({NAME: files}) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(transfer, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return tmp_path / "hub"


@pytest.fixture
def roots(cache: Path) -> tuple[Root, ...]:
    return default_roots([])


@pytest.fixture
async def client(start: Start, hub: FakeHub, roots: tuple[Root, ...]) -> Client:
    return await start(Settings(), *roots)


async def pull(client: Client, name: str = NAME, **more: Any) -> list[dict[str, Any]]:
    return lines_of(await client.post("/api/pull", json={"model": name, **more}))


async def names(client: Client) -> list[str]:
    return [each["name"] for each in (await client.get("/api/tags")).json["models"]]


async def delete(client: Client, name: str) -> int:
    return (await client.send("DELETE", "/api/delete", json={"model": name})).status


def parts_in(cache: Path) -> list[Path]:
    return list(cache.rglob("*.incomplete"))


@pytest.mark.slow
async def test_pull_chat_copy_delete(client: Client, cache: Path, files: dict[str, bytes]) -> None:
    first, *lines, last = await pull(client, f"hf.co/{NAME}:latest")
    assert (first, last) == ({"status": "pulling manifest"}, {"status": "success"})
    told = [line for line in lines if "total" in line]
    assert {line["status"] for line in told} == {f"pulling {COMMIT[:12]}"}
    assert len({line["digest"] for line in told}) == 1
    assert told[-1]["completed"] == told[-1]["total"] > len(files[WEIGHTS])
    assert lines[-1]["status"].startswith("Verified: ")
    assert await names(client) == ["Scripted-4bit"]
    copied = await client.post("/api/copy", json={"source": NAME, "destination": "mine:7b"})
    assert (copied.status, copied.body) == (200, b"")
    assert await names(client) == ["Scripted-4bit", "mine:7b"]
    ask = {"model": "mine:7b", "messages": [{"role": "user", "content": "hi"}], "stream": False}
    answer = await client.post("/api/chat", json=ask)
    assert answer.json["message"]["content"]
    assert (await client.post("/api/chat", json={**ask, "model": f"hf.co/{NAME}"})).status == 200
    assert [each["id"] for each in (await client.get("/health")).json["engine"]["loaded"]]
    assert await delete(client, "mine:7b") == 200
    assert await names(client) == ["Scripted-4bit"]
    # Loaded as it is, it is unloaded first.
    assert await delete(client, NAME) == 200
    assert await names(client) == []
    assert (await client.get("/health")).json["engine"]["loaded"] == []
    assert not (cache / "models--org--Scripted-4bit").exists()
    assert await delete(client, NAME) == 404


async def test_a_model_that_is_there_needs_no_hub(client: Client, hub: FakeHub) -> None:
    await pull(client)
    hub.asked.clear()
    assert (await pull(client))[-1] == {"status": "success"}
    assert hub.asked == []


async def test_two_pulls_share_one_download(client: Client, hub: FakeHub) -> None:
    hub.stall_at = 100_000
    first = asyncio.create_task(pull(client))
    await asyncio.to_thread(hub.stalled.wait, 30)
    second = asyncio.create_task(client.post("/api/pull", json={"model": NAME, "stream": False}))
    [download] = client.app[HUB_DOWNLOADS]._running.values()
    await until(lambda: len(download.listeners) == 2)
    hub.go_on.set()
    assert (await first)[-1] == {"status": "success"}
    assert (await second).json == {"status": "success"}
    assert hub.fetched.count(WEIGHTS) == 1
    assert not client.app[HUB_DOWNLOADS]._running


async def test_a_client_that_leaves_ends_it_and_the_next_goes_on(
    client: Client, hub: FakeHub, cache: Path, files: dict[str, bytes]
) -> None:
    hub.stall_at = 100_000
    url = f"http://127.0.0.1:{client.port}/api/pull"
    async with client.session.post(url, json={"model": NAME}) as answer:
        await answer.content.readline()
        await asyncio.to_thread(hub.stalled.wait, 30)
        [part] = parts_in(cache)
        await until(lambda: os.stat(part).st_size >= 100_000)
    await until(lambda: not client.app[HUB_DOWNLOADS]._running)
    hub.stall_at = None
    hub.asked.clear()
    hub.go_on.set()
    assert (await pull(client))[-1] == {"status": "success"}
    [weights] = hub.fetched
    start = int(weights.removeprefix(f"{WEIGHTS} bytes=").removesuffix("-"))
    assert 100_000 <= start < len(files[WEIGHTS])


@BOTH
async def test_what_fails_says_why(client: Client, hub: FakeHub, stream: bool) -> None:
    async def error(name: str) -> str:
        answer = await client.post("/api/pull", json={"model": name, "stream": stream})
        return str(lines_of(answer)[-1]["error"]) if stream else error_of(answer)

    assert "There is no model org/Absent on http" in await error("org/Absent")
    hub.gated = frozenset({NAME})
    assert "is gated: agree to its terms on" in await error(NAME)
    hub.gated = frozenset()
    hub.damaged.add(WEIGHTS)
    assert "came damaged" in await error(NAME)
    assert "name it as the Hugging Face hub does" in error_of(
        await client.post("/api/pull", json={"model": "qwen3:4b"})
    )


async def test_several_deletes_at_once(client: Client, cache: Path) -> None:
    for _ in range(3):
        await pull(client)
        statuses = await asyncio.gather(*(delete(client, NAME) for _ in range(6)))
        assert statuses.count(200) == 1
        assert set(statuses) <= {200, 400, 404}
        assert not (cache / "models--org--Scripted-4bit").exists()


async def test_a_page_in_a_browser_can_not_change_models(client: Client) -> None:
    await pull(client)
    page = {"Origin": "https://example.com"}
    for method, path in (("DELETE", "/api/delete"), ("POST", "/api/copy"), ("POST", "/api/pull")):
        body = json.dumps({"model": NAME, "source": NAME, "destination": "x"})
        assert (await client.send(method, path, data=body, headers=page)).status == 403
    assert await names(client) == ["Scripted-4bit"]
