"""Many models behind one server: races for memory, folders that go away, loads that fail, and what
the clients that wait see meanwhile."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from aiohttp import web

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine import device as device_seam
from maxi_mlx.engine import language_model
from maxi_mlx.engine.memory_need import need_of
from maxi_mlx.server.keys import CATALOG, KEEP_ALIVE_S
from tests.engine.asking import settled, slowed
from tests.server.asking import until
from tests.server.running import Answer, Client, Start

TEXT = "/v1/completions"
FAMILIES = ("llama", "qwen3", "qwen2", "gemma3")

TinyModel = Callable[[str], Path]


def asked(model: str, **more: Any) -> dict[str, Any]:
    ask = {"model": model, "prompt": [20, 30, 40], "temperature": 0, "max_tokens": 24}
    return {**ask, **more}


def text_of(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    text: str = answer.json["choices"][0]["text"]
    return text


def states(client: Client) -> dict[str, str]:
    return {model.id: model.state for model in client.engine.status().loaded}


@pytest.fixture(scope="session")
def folders(tiny_model: TinyModel) -> dict[str, Path]:
    """Made before a loop runs, which it would hold up."""
    return {family: tiny_model(family) for family in FAMILIES}


@pytest.fixture
async def client(start: Start, folders: dict[str, Path]) -> Client:
    roots = [Root(folder, "tests", "folders") for folder in folders.values()]
    client = await start(Settings(cache_disk_bytes=0), *roots, prepare=often_kept_alive)
    await client.engine.wait_ready()
    return client


def often_kept_alive(app: web.Application) -> None:
    app[KEEP_ALIVE_S] = 0.1


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Loads wait half way, their weights in memory, until the event is set."""
    go_on = threading.Event()
    real = language_model._load_tokenizer

    def waiting(folder: Path) -> Any:
        assert go_on.wait(60)
        return real(folder)

    monkeypatch.setattr(language_model, "_load_tokenizer", waiting)
    try:
        yield go_on
    finally:
        go_on.set()


# -- races -----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_many_requests_for_four_models_in_the_memory_of_two(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"tiny-{family}" for family in FAMILIES]
    alone = {name: text_of(await client.post(TEXT, json=asked(name))) for name in names}
    for name in names:
        await client.engine.unload(name)
    await settled(client.engine)
    catalog = client.app[CATALOG]

    def need_bytes(name: str) -> int:
        return need_of(catalog.find(name), kv_bits=None, max_kv_size=None).num_bytes

    needs = [await asyncio.to_thread(need_bytes, name) for name in names]
    limit_bytes = mx.get_active_memory() + sum(sorted(needs)[-2:])
    device = client.engine._device
    device.limit_bytes = limit_bytes
    monkeypatch.setattr(device_seam, "_earlier_peak_bytes", 0)
    await device.call(mx.reset_peak_memory)
    asks = [asked(names[number % 4]) for number in range(32)]
    answers = await asyncio.gather(*(client.post(TEXT, json=ask) for ask in asks))
    for ask, answer in zip(asks, answers, strict=True):
        assert text_of(answer) == alone[ask["model"]]
    # At any time, within turns too: loads, copies and steps under way.
    peak_bytes = (await device.call(lambda: device_seam.memory(limit_bytes))).peak_bytes
    assert peak_bytes <= limit_bytes
    await settled(client.engine)
    assert client.engine.status().num_running == 0
    assert client.engine.status().num_waiting == 0
    assert len(states(client)) <= 2


async def test_who_waits_for_a_load_is_kept_alive_and_shares_it(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="maxi_mlx.engine.model_pool")
    url = f"http://127.0.0.1:{client.port}{TEXT}"
    bodies = [bytearray() for _ in range(3)]

    async def read(body: bytearray) -> None:
        ask = asked("tiny-llama", stream=True)
        async with client.session.post(url, json=ask) as response:
            async for piece in response.content.iter_any():
                body.extend(piece)

    with held(monkeypatch) as go_on:
        reading = [asyncio.create_task(read(body)) for body in bodies]
        await until(lambda: all(body.count(b": keep-alive") >= 3 for body in bodies))
        assert states(client) == {"tiny-llama": "loading"}
        go_on.set()
        await asyncio.gather(*reading)
    for body in bodies:
        assert body.startswith(b": keep-alive\n\n")
        assert body.endswith(b"data: [DONE]\n\n")
    loads = [record for record in caplog.records if "loaded tiny-llama" in record.message]
    assert len(loads) == 1


async def test_another_model_answers_while_one_loads(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = text_of(await client.post(TEXT, json=asked("tiny-qwen3")))
    with held(monkeypatch) as go_on:
        waiting = asyncio.create_task(client.post(TEXT, json=asked("tiny-llama")))
        await until(lambda: states(client).get("tiny-llama") == "loading")
        for _ in range(3):
            assert text_of(await client.post(TEXT, json=asked("tiny-qwen3"))) == want
        assert states(client)["tiny-llama"] == "loading"
        go_on.set()
        assert text_of(await waiting)


# -- Ollama's keep_alive ---------------------------------------------------------------------


def in_ollama(**more: Any) -> dict[str, Any]:
    return {
        "model": "tiny-llama",
        "prompt": "hello",
        "raw": True,
        "stream": False,
        "options": {"temperature": 0, "num_predict": 4},
        **more,
    }


async def seconds_left(client: Client) -> float | None:
    """By /api/ps: of the one model in memory."""
    [model] = (await client.get("/api/ps")).json["models"]
    at = datetime.fromisoformat(model["expires_at"])
    return None if at.year == 9999 else (at - datetime.now(UTC)).total_seconds()


async def test_load_duration_is_what_the_model_took_to_load(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(monkeypatch) as go_on:
        began = time.monotonic()
        waiting = asyncio.create_task(client.post("/api/generate", json=in_ollama()))
        await until(lambda: states(client).get("tiny-llama") == "loading")
        held_at = time.monotonic()
        await asyncio.sleep(0.7)
        held_s = time.monotonic() - held_at
        go_on.set()
        first = (await waiting).json
        took_s = time.monotonic() - began
    second = (await client.post("/api/generate", json=in_ollama())).json
    assert held_s <= first["load_duration"] / 1e9 <= took_s
    assert first["load_duration"] <= first["total_duration"] <= took_s * 1e9
    assert second["load_duration"] < first["load_duration"] / 2
    assert second["load_duration"] <= second["total_duration"]


async def test_ps_tells_when_a_model_goes(client: Client) -> None:
    times: list[tuple[object, float | None]] = [
        (None, 1800),
        ("5m", 300),
        (None, 300),
        (30, 30),
        (-1, None),
        ("1h", 3600),
    ]
    for keep_alive, seconds in times:
        answer = await client.post("/api/generate", json=in_ollama(keep_alive=keep_alive))
        assert answer.status == 200
        left = await seconds_left(client)
        assert left == (None if seconds is None else pytest.approx(seconds, abs=20))
    await client.post("/api/generate", json=in_ollama(keep_alive=0))
    await until(lambda: not states(client))
    assert (await client.get("/api/ps")).json == {"models": []}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "nothing"),
    [("/api/chat", {"messages": []}), ("/api/generate", {"prompt": ""}), ("/api/generate", {})],
)
async def test_loading_and_unloading_without_a_question(
    path: str, nothing: dict[str, Any], client: Client
) -> None:
    ask = {"model": "tiny-llama", **nothing}
    answer = (await client.post(path, json={**ask, "keep_alive": "10m"})).json
    assert (answer["done"], answer["done_reason"]) == (True, "load")
    assert await seconds_left(client) == pytest.approx(600, abs=20)
    answer = (await client.post(path, json={**ask, "keep_alive": 0})).json
    assert (answer["done"], answer["done_reason"]) == (True, "unload")
    assert states(client) == {}


@pytest.mark.parametrize("keep_alive", ["soon", "5 minutes", "1d", "--"])
async def test_what_is_no_time_is_refused(keep_alive: str, client: Client) -> None:
    answer = await client.post("/api/generate", json=in_ollama(keep_alive=keep_alive))
    assert answer.status == 400
    assert keep_alive in answer.json["error"]
    assert "such as '5m'" in answer.json["error"]
    assert states(client) == {}


# -- chaos -----------------------------------------------------------------------------------


@pytest.fixture
def doomed(folders: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(folders["llama"], tmp_path / "doomed")


@asynccontextmanager
async def beside_another(
    start: Start, folders: dict[str, Path], folder: Path
) -> AsyncIterator[tuple[Client, Path, str]]:
    """A server over that folder, and another model whose answer stays what it is."""
    roots = [Root(path, "tests", "folders") for path in (folder, folders["qwen3"])]
    client = await start(Settings(cache_disk_bytes=0), *roots)
    await client.engine.wait_ready()
    want = text_of(await client.post(TEXT, json=asked("tiny-qwen3")))
    yield client, folder, want
    assert text_of(await client.post(TEXT, json=asked("tiny-qwen3"))) == want
    assert states(client).get("tiny-qwen3") == "ready"
    assert (await client.get("/health")).json["status"] == "ok"


async def test_a_folder_deleted_while_its_model_is_in_use(
    start: Start, folders: dict[str, Path], doomed: Path
) -> None:
    async with beside_another(start, folders, doomed) as (client, folder, _):
        long = asked("doomed", max_tokens=200)
        whole = text_of(await client.post(TEXT, json=long))
        with slowed():
            running = asyncio.create_task(client.post(TEXT, json=long))
            await until(lambda: client.engine.status().num_running == 1)
            shutil.rmtree(folder)
        assert text_of(await running) == whole, "what is in memory needs no files"
        answer = await client.post(TEXT, json=asked("doomed"))
        assert answer.status == 404
        assert "'doomed' was not found" in answer.error["message"]


@pytest.mark.slow
async def test_a_folder_deleted_while_it_is_loaded(
    start: Start, folders: dict[str, Path], doomed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with beside_another(start, folders, doomed) as (client, folder, want):
        await settled(client.engine)
        before = mx.get_active_memory()
        with held(monkeypatch) as go_on:
            waiting = asyncio.create_task(client.post(TEXT, json=asked("doomed")))
            await until(lambda: mx.get_active_memory() > before)
            shutil.rmtree(folder)
            assert text_of(await client.post(TEXT, json=asked("tiny-qwen3"))) == want
            go_on.set()
            answer = await waiting
        assert answer.status == 500
        assert f"its folder {folder} was moved or deleted" in answer.error["message"]
        await settled(client.engine)
        assert mx.get_active_memory() - before < 50_000
        assert client.engine.status().loaded[0].id == "tiny-qwen3"
        assert (await client.post(TEXT, json=asked("doomed"))).status == 404


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before it is looked up", "after"])
async def test_a_shard_that_is_cut_short(
    when: str,
    start: Start,
    folders: dict[str, Path],
    doomed: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with beside_another(start, folders, doomed) as (client, folder, _):
        shard = folder / "model.safetensors"
        whole = shard.read_bytes()
        await settled(client.engine)
        before = mx.get_active_memory()
        if when == "after":
            real = language_model.load_model

            def cut_meanwhile(*given: Any, **more: Any) -> Any:
                model = real(*given, **more)
                shard.write_bytes(whole[:-100_000])
                return model

            monkeypatch.setattr(language_model, "load_model", cut_meanwhile)
        else:
            shard.write_bytes(whole[:-100_000])
        answer = await client.post(TEXT, json=asked("doomed"))
        assert answer.status == (500 if when == "after" else 400)
        assert "model.safetensors is cut short: " in answer.error["message"]
        assert "bytes are missing" in answer.error["message"]
        await settled(client.engine)
        assert mx.get_active_memory() - before < 50_000
        monkeypatch.undo()
        shard.write_bytes(whole)
        assert text_of(await client.post(TEXT, json=asked("doomed")))


@pytest.mark.slow
async def test_a_load_that_fails_half_way_leaves_nothing(
    start: Start, folders: dict[str, Path], doomed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with beside_another(start, folders, doomed) as (client, _, _want):
        await settled(client.engine)
        before = mx.get_active_memory()

        def no_kernel(*_: Any) -> Any:
            assert mx.get_active_memory() - before > 400_000, "its weights are there"
            raise RuntimeError("no such kernel")

        with monkeypatch.context() as patch:
            patch.setattr(language_model, "measure", no_kernel)
            asks = [client.post(TEXT, json=asked("doomed")) for _ in range(4)]
            for answer in await asyncio.gather(*asks):
                assert answer.status == 500
                assert answer.error["message"] == "doomed could not be loaded: no such kernel"
        await settled(client.engine)
        assert mx.get_active_memory() - before < 50_000
        assert client.engine._device.room().device_bytes > 0
        assert not client.engine._device._loads
        assert text_of(await client.post(TEXT, json=asked("doomed")))


async def test_a_server_that_stops_while_a_model_loads(
    start: Start, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await start(Settings(), Root(folders["llama"], "tests", "folders"))
    await client.engine.wait_ready()
    with held(monkeypatch) as go_on:
        waiting = asyncio.create_task(client.post(TEXT, json=asked("tiny-llama")))
        await until(lambda: states(client).get("tiny-llama") == "loading")
        async with asyncio.timeout(30):
            await client.engine.close()
        answer = await waiting
        assert answer.status == 503
        assert "shutting down" in json.loads(answer.body)["error"]["message"]
        go_on.set()
