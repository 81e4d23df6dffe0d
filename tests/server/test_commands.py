"""The commands that talk to the running server: ps, stop, rm."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from maxi_mlx.catalog.roots import Root, default_roots, home_models_dir
from maxi_mlx.cli.main import commands
from maxi_mlx.cli.ps import span
from maxi_mlx.core.errors import NoAnswer, SetupError
from maxi_mlx.core.settings import Settings
from tests.server.asking import TEXT, long_text
from tests.server.running import Client, Start

Run = Callable[..., Awaitable[str]]


@pytest.fixture
def models(scripted_model: Path, long_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the home's own folder, where a command looks as the server does."""
    monkeypatch.setenv("HF_HUB_CACHE", str(home_models_dir().parent / "hub"))
    for folder in (scripted_model, long_model):
        shutil.copytree(folder, home_models_dir() / "org" / folder.name)
    return home_models_dir()


@pytest.fixture
def roots(models: Path) -> tuple[Root, ...]:
    return default_roots([])


@pytest.fixture
async def client(start: Start, roots: tuple[Root, ...]) -> Client:
    return await start(Settings(), *roots)


@pytest.fixture
def run(client: Client) -> Run:
    async def run(*arguments: str) -> str:
        words = [arguments[0], "--port", str(client.port), *arguments[1:]]
        result = await asyncio.to_thread(
            CliRunner().invoke, commands, words, catch_exceptions=False, prog_name="maxi-mlx"
        )
        return result.stdout

    return run


async def loaded(run: Run) -> list[dict[str, Any]]:
    return list(json.loads(await run("ps", "--json")))


async def test_ps_and_stop(client: Client, run: Run) -> None:
    assert (await run("ps")).startswith("No model is loaded at http://127.0.0.1:")
    assert await run("stop", "scripted") == "scripted is not loaded\n"
    await client.post("/api/generate", json={"model": "scripted", "keep_alive": "5m"})
    [model] = await loaded(run)
    assert (model["id"], model["state"], model["is_pinned"]) == ("scripted", "ready", False)
    assert 0 <= model["loaded_s"] < 60
    assert 200 < model["expires_in_s"] <= 300
    heads, row = (await run("ps")).splitlines()
    assert heads.split() == ["MODEL", "LOADED", "WEIGHTS", "CACHE", "ANSWERS", "STAYS"]
    assert row.startswith("scripted ")
    assert row.endswith("5 min")
    assert await run("stop", "org/scripted") == "scripted is unloaded\n"
    assert await loaded(run) == []


async def test_a_model_in_use_is_stopped_afterwards_and_not_removed(
    client: Client, run: Run, models: Path
) -> None:
    ask = long_text(stream=True)
    async with client.session.post(f"http://127.0.0.1:{client.port}{TEXT}", json=ask) as answer:
        await answer.content.readline()
        with pytest.raises(NoAnswer, match="long is in use: wait for its"):
            await run("rm", "long", "--yes")
        assert (await run("stop", "long")).startswith("long goes as soon as its answers are")
    assert (models / "org" / "long").is_dir()


async def test_rm_unloads_first(client: Client, run: Run, models: Path) -> None:
    await client.post("/api/generate", json={"model": "scripted"})
    with pytest.raises(SetupError, match="nobody can be asked here; say --yes to remove"):
        await run("rm", "scripted")
    told = await run("rm", "scripted", "--yes")
    assert told.startswith("Removed scripted (")
    assert told.endswith(f"from {models}/org/scripted\n")
    assert await loaded(run) == []
    names = [each["name"] for each in (await client.get("/api/tags")).json["models"]]
    assert names == ["long"]


async def test_rm_means_the_model_and_not_a_second_name(
    client: Client, run: Run, models: Path
) -> None:
    (models / "org" / "scripted").rename(models / "org" / "later")
    copy = {"source": "long", "destination": "scripted"}
    assert (await client.post("/api/copy", json=copy)).status == 200
    (models / "org" / "later").rename(models / "org" / "scripted")
    path = str(models / "org" / "scripted")
    await client.post("/api/generate", json={"model": path})
    assert "Removed scripted (" in await run("rm", "org/scripted", "--yes")
    assert os.listdir(models / "org") == ["long"]
    assert (
        await run("rm", "scripted") == "scripted was a second name, and is gone; its model stays\n"
    )


async def test_without_the_key_or_a_server(start: Start, run: Run) -> None:
    guarded = await start(Settings(api_keys=("secret",)))
    url = f"http://127.0.0.1:{guarded.port}"
    with pytest.raises(NoAnswer, match="wants its API key; set MAXI_MLX_API_KEY"):
        await run("ps", "--url", url)
    assert (await run("ps", "--url", f"{url}/v1", "--api-key", "secret")).startswith("No model")
    with pytest.raises(SetupError, match=r"no server answers at http://127\.0\.0\.1:9; start one"):
        await run("stop", "x", "--port", "9")


def test_spans() -> None:
    for seconds, text in {
        0.4: "0 s", 59: "59 s", 60: "1 min", 3540: "59 min", 3599: "1 h", 11_100: "3 h 5 min",
        7200: "2 h", 90_000: "1 d 1 h", 172_800: "2 d",
    }.items():  # fmt: skip
        assert span(seconds) == text
