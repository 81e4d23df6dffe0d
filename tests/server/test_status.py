"""What the server says of itself and of its models."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import maxi_mlx
from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import STRATEGIES, Settings
from tests.engine.asking import slowed
from tests.server.asking import until
from tests.server.running import Client, Start
from tests.server.test_pool import held

KNOWN_FIELDS = {"id", "object", "created", "owned_by"}


@pytest.fixture
def acme(tiny_model: Callable[[str], Path], tmp_path: Path) -> Path:
    """Two models that can be served, one under an organisation, and one that can't."""
    folder = tmp_path / "models"
    shutil.copytree(tiny_model("llama"), folder / "acme" / "tiny-llama")
    shutil.copytree(tiny_model("qwen3"), folder / "tiny-qwen3")
    shutil.copytree(tiny_model("qwen3"), folder / "broken")
    (folder / "broken" / "model.safetensors").unlink()
    return folder


async def ready(client: Client) -> None:
    async with asyncio.timeout(60):
        await client.engine.wait_ready()


@pytest.mark.clients(56)
async def test_health_shows_every_setting_with_its_source(start: Start) -> None:
    settings = Settings(
        strategy="memory",
        scheduler=STRATEGIES["memory"],
        model_dirs=(Path("/nowhere"),),
        api_keys=("k1", "k2"),
        sources={
            "strategy": "flag --strategy",
            "api_keys": "environment MAXI_MLX_API_KEY",
            "scheduler.decode_share": "file x.toml",
        },
    )
    client = await start(settings)
    await ready(client)
    answer = await client.get("/health", headers={"x-api-key": "k1"})
    assert answer.status == 200
    got = answer.json
    assert (got["status"], got["version"]) == ("ok", maxi_mlx.__version__)
    assert 0 <= got["uptime_s"] < 60
    assert got["engine"]["state"] == "ready"
    assert got["engine"]["num_running"] == 0
    shown = got["settings"]
    assert shown["strategy"] == {"value": "memory", "source": "flag --strategy"}
    assert shown["num_api_keys"] == {"value": 2, "source": "environment MAXI_MLX_API_KEY"}
    assert shown["port"] == {"value": 11434, "source": "default"}
    assert shown["model_dirs"] == {"value": ["/nowhere"], "source": "default"}
    assert shown["scheduler.max_running_rows"] == {"value": 4, "source": "strategy memory"}
    assert shown["scheduler.decode_share"] == {"value": 0.3, "source": "file x.toml"}
    names = {name for name in Settings.__dataclass_fields__ if name not in ("sources", "scheduler")}
    assert names - {"api_keys"} <= set(shown)


async def test_health_does_not_wait_for_the_engine(
    start: Start, scripted_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(monkeypatch):
        client = await start(Settings(model="scripted"), Root(scripted_model, "tests", "folders"))
        assert (await client.get("/health")).json["status"] == "starting"
    await ready(client)
    assert (await client.get("/health")).json["status"] == "ok"


async def test_health_of_an_engine_that_failed_is_503(start: Start) -> None:
    client = await start(Settings(model="not-here"))
    with pytest.raises(Exception, match="not-here"):
        await ready(client)
    answer = await client.get("/health")
    assert (answer.status, answer.json["status"]) == (503, "failed")
    assert "not-here" in answer.json["engine"]["fault"]


async def test_health_while_draining_is_503(start: Start) -> None:
    client = await start()
    await client.engine.drain(0.1)
    answer = await client.get("/health")
    assert (answer.status, answer.json["status"]) == (503, "draining")
    refused = await client.post(
        "/v1/completions", json={"model": "m", "prompt": "hi", "stream": True}
    )
    assert refused.status == 503
    assert int(refused.headers["Retry-After"]) > 0


async def test_cache_stats(start: Start, scripted_model: Path) -> None:
    client = await start(Settings(model="scripted"), Root(scripted_model, "tests", "folders"))
    await ready(client)
    await until(lambda: client.engine.status().memory is not None)  # read now and then
    got = (await client.get("/v1/cache/stats")).json
    assert set(got) == {"kv_cache", "prefix_cache", "models", "memory"}
    assert got["kv_cache"]["bytes"] == 0
    [model] = got["models"]
    assert (model["id"], model["state"]) == ("scripted", "ready")
    assert model["weight_bytes"] > 0
    assert model["prefix_cache"]["hits"] == got["prefix_cache"]["hits"] == 0
    assert got["prefix_cache"]["limit_bytes"] > 0
    assert got["prefix_cache"]["disk"]["limit_bytes"] == 10 * 2**30
    memory = got["memory"]
    assert set(memory) == {"active_bytes", "cache_bytes", "peak_bytes", "limit_bytes"}
    assert memory["limit_bytes"] > memory["peak_bytes"] >= memory["active_bytes"] > 0


@pytest.mark.clients(50)
async def test_point_50_the_list_of_models(start: Start, acme: Path) -> None:
    client = await start(Settings(), Root(acme, "tests", "folders"))
    got = (await client.get("/v1/models")).json
    assert got["object"] == "list"
    assert {model["id"] for model in got["data"]} == {"tiny-llama", "tiny-qwen3"}
    for model in got["data"]:
        assert set(model) >= KNOWN_FIELDS
        assert model["object"] == "model"
        assert isinstance(model["created"], int)
    unservable = await client.get("/v1/models/broken")
    assert unservable.status == 404
    assert unservable.error["code"] == "model_not_found"


@pytest.mark.slow
@pytest.mark.clients(50)
async def test_point_50_the_list_comes_while_models_load_and_answer(
    start: Start, acme: Path, long_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await start(
        Settings(), Root(acme, "tests", "folders"), Root(long_model, "tests", "folders")
    )
    ask = {"max_tokens": 150, "prompt": "hello", "logit_bias": {"0": -100, "1": -100}}
    with held(monkeypatch) as go_on:
        answers = [
            asyncio.create_task(client.post("/v1/completions", json={**ask, "model": model}))
            for model in ("long", "tiny-qwen3")
        ]
        await until(lambda: any(m.state == "loading" for m in client.engine.status().loaded))
        for _ in range(4):
            assert (await client.get("/v1/models")).status == 200
        go_on.set()
    with slowed():
        await until(lambda: client.engine.status().num_running == 2)
        for _ in range(4):
            assert (await client.get("/v1/models")).status == 200
        assert not any(task.done() for task in answers)
    assert [(await answer).status for answer in answers] == [200, 200]


async def test_a_new_model_appears_without_a_restart(
    start: Start, acme: Path, tmp_path: Path
) -> None:
    served = tmp_path / "served"
    client = await start(Settings(), Root(served, "tests", "folders"))
    assert (await client.get("/v1/models")).json["data"] == []
    shutil.copytree(acme / "acme" / "tiny-llama", served / "tiny-llama")
    [model] = (await client.get("/v1/models")).json["data"]
    assert model["id"] == "tiny-llama"


@pytest.mark.clients(51)
async def test_point_51_no_folder_means_an_empty_list(start: Start) -> None:
    client = await start(
        Settings(),
        Root(Path("/nowhere/at/all"), "tests", "folders"),
        Root(Path("/nowhere/hub"), "hub cache", "hub"),
    )
    answer = await client.get("/v1/models")
    assert (answer.status, answer.json) == (200, {"object": "list", "data": []})


@pytest.mark.clients(52)
@pytest.mark.parametrize(
    "path",
    [
        "tiny-llama",
        "acme/tiny-llama",
        "acme%2Ftiny-llama",
        "acme%2ftiny-llama/",
        "Acme/Tiny-Llama",
        "tiny-llama:latest",
        "tiny-llama?limit=1",
    ],
)
async def test_point_52_one_model_by_any_of_its_names(start: Start, acme: Path, path: str) -> None:
    client = await start(Settings(), Root(acme, "tests", "folders"))
    for base in ("/models/", "/v1/models/", "/v1//models//"):
        answer = await client.get(base + path)
        assert answer.status == 200
        assert (answer.json["id"], answer.json["owned_by"]) == ("tiny-llama", "acme")


@pytest.mark.clients(52)
@pytest.mark.parametrize(
    "path", ["tiny-lama", "a/b/c/d", "%2Fetc%2Fpasswd", "..%2F..%2Fetc", "%00", "x" * 5000, "%FF"]
)
async def test_point_52_an_unknown_model_is_404(start: Start, acme: Path, path: str) -> None:
    client = await start(Settings(), Root(acme, "tests", "folders"))
    answer = await client.get("/v1/models/" + path)
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"
    assert len(answer.error["message"]) < 1000
