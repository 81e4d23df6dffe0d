"""LM Studio's lists of models, with the keys that its clients insist on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.server.asking import body
from tests.server.running import Client, Start


@pytest.fixture(scope="session")
def folders(scripted_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With and without tools in the chat template."""
    folder = tmp_path_factory.mktemp("lm-studio")
    shutil.copytree(scripted_model, folder / "acme" / "scripted")
    shutil.copytree(scripted_model, folder / "plain")
    (folder / "plain" / "chat_template.jinja").write_text("{{ messages[0].content }}")
    return folder


@pytest.fixture
async def client(start: Start, folders: Path) -> Client:
    return await start(Settings(), Root(folders, "tests", "folders"))


@pytest.mark.clients(96, 102)
async def test_the_older_list(client: Client) -> None:
    listed = (await client.get("/api/v0/models")).json
    assert listed["object"] == "list"
    scripted, plain = sorted(listed["data"], key=lambda model: model["id"] != "scripted")
    assert scripted == {
        "id": "scripted",
        "object": "model",
        "type": "llm",
        "publisher": "acme",
        "arch": "qwen3",
        "compatibility_type": "mlx",
        "quantization": "none",
        "state": "not-loaded",
        "max_context_length": 4096,
        "capabilities": ["tool_use"],
    }
    assert (plain["publisher"], plain["capabilities"]) == ("local", [])
    assert (await client.get("/api/v0/models/acme/scripted")).json == scripted
    assert (await client.get("/api/v0/models/none")).status == 404
    await client.post("/api/v0/chat/completions", json=body(max_tokens=1))
    loaded = (await client.get("/api/v0/models/scripted")).json
    assert (loaded["state"], loaded["loaded_context_length"]) == ("loaded", 4096)


@pytest.mark.clients(102)
async def test_the_newer_list(client: Client) -> None:
    await client.post("/api/v0/chat/completions", json=body(max_tokens=1))
    models = (await client.get("/api/v1/models/")).json["models"]
    scripted, plain = sorted(models, key=lambda model: model["key"] != "scripted")
    assert scripted["loaded_instances"] == [{"id": "scripted", "config": {"context_length": 4096}}]
    assert scripted["capabilities"] == {"vision": False, "trained_for_tool_use": True}
    assert (scripted["type"], scripted["format"], scripted["publisher"]) == ("llm", "mlx", "acme")
    assert scripted["size_bytes"] > 1_000_000
    assert plain["loaded_instances"] == []
    assert plain["capabilities"]["trained_for_tool_use"] is False


@pytest.mark.clients(102)
async def test_loading_and_unloading(client: Client) -> None:
    async def instances() -> list[str]:
        models = (await client.get("/api/v1/models")).json["models"]
        return [each["id"] for model in models for each in model["loaded_instances"]]

    asked = {"model": "acme/scripted", "context_length": 4096, "flash_attention": True}
    loaded = (await client.post("/api/v1/models/load", json=asked)).json
    assert loaded.pop("load_time_seconds") >= 0
    assert loaded == {"type": "llm", "instance_id": "scripted", "status": "loaded"}
    assert await instances() == ["scripted"]
    for _ in range(2):
        gone = await client.post("/api/v1/models/unload", json={"instance_id": "scripted"})
        assert gone.json == {"instance_id": "scripted"}
        assert await instances() == []
    for verb, asked, status in (
        ("load", {}, 400),
        ("load", {"model": "nobody"}, 404),
        ("unload", {"instance_id": " "}, 400),
        ("unload", {"instance_id": "nobody"}, 404),
    ):
        answer = await client.post(f"/api/v1/models/{verb}", json=asked)
        assert answer.status == status
        assert answer.error
