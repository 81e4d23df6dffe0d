"""Ollama's lists of models, what is said of each, pulling, and embeddings."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.catalog.pull.embedded import model_folder
from maxi_mlx.catalog.pull.folder import NEEDED_FILES
from maxi_mlx.catalog.pull.source import SMOLLM2
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.line_progress import LineProgress
from tests.server.asking_ollama import BOTH, error_of, lines_of
from tests.server.running import Client, Start
from tests.vectors import tiny
from tests.vectors.conftest import needs_extra


@pytest.fixture(scope="session")
def folders(scripted_model: Path, long_model: Path) -> list[Path]:
    return [scripted_model, long_model]


@pytest.fixture
async def client(start: Start, folders: list[Path]) -> Client:
    return await start(Settings(), *(Root(folder, "tests", "folders") for folder in folders))


@pytest.mark.clients(95)
async def test_point_95_the_version_is_one_that_clients_take(client: Client) -> None:
    version = (await client.get("/api/version")).json["version"]
    assert tuple(map(int, version.split("."))) >= (0, 13, 4)


@pytest.mark.parametrize("path", ["/", "/api/version", "/api/tags"])
async def test_heads(client: Client, path: str) -> None:
    assert (await client.send("HEAD", path)).status == 200


@pytest.mark.clients(96)
async def test_point_96_tags(client: Client) -> None:
    models = {model["name"]: model for model in (await client.get("/api/tags")).json["models"]}
    assert set(models) == {"scripted", "long"}
    model = models["scripted"]
    assert model["model"] == "scripted"
    assert len(bytes.fromhex(model["digest"])) == 32
    assert model["size"] > 0
    assert model["modified_at"].endswith("Z")
    details = {"format", "family", "families", "parameter_size", "quantization_level"}
    assert details <= set(model["details"])
    assert models["scripted"]["digest"] != models["long"]["digest"]


@pytest.mark.parametrize("field", ["model", "name"])
@pytest.mark.parametrize("name", ["scripted", "scripted:latest"])
@pytest.mark.clients(96, 97)
async def test_points_96_and_97_show(client: Client, field: str, name: str) -> None:
    shown = (await client.post("/api/show", json={field: name})).json
    assert set(shown["capabilities"]) == {"completion", "tools", "thinking", "insert"}
    architecture = shown["model_info"]["general.architecture"]
    context = shown["model_info"][f"{architecture}.context_length"]
    assert shown["parameters"] == f"num_ctx {context}"
    assert ".Suffix" in shown["template"]
    assert "messages" in shown["template"]


@pytest.mark.clients(96)
async def test_point_96_a_model_without_a_template_can_do_less(client: Client) -> None:
    shown = (await client.post("/api/show", json={"model": "long"})).json
    assert shown["capabilities"] == ["completion"]
    assert ".Suffix" not in shown["template"]


@pytest.mark.parametrize("name", ["scripted", "scripted:latest", "SCRIPTED"])
@pytest.mark.clients(100)
async def test_point_100_pulling_what_is_there(client: Client, name: str) -> None:
    lines = lines_of(await client.post("/api/pull", json={"model": name}))
    assert lines[-1] == {"status": "success"}
    whole = await client.post("/api/pull", json={"name": name, "stream": False})
    assert whole.json == {"status": "success"}


@pytest.fixture
def pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model that can be fetched is in its place, where the server doesn't look."""
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path))
    folder = model_folder()
    folder.mkdir(parents=True)
    for file in NEEDED_FILES:
        (folder / file).touch()


@BOTH
@pytest.mark.parametrize("name", ["smollm2", "SmolLM2:135m"])
@pytest.mark.usefixtures("pulled")
async def test_pulling_the_one_that_can_be_fetched(client: Client, name: str, stream: bool) -> None:
    answer = await client.post("/api/pull", json={"model": name, "stream": stream})
    if not stream:
        assert answer.json == {"status": "success"}
        return
    lines = [line["status"] for line in lines_of(answer)]
    assert lines == ["pulling manifest", f"its name here is {SMOLLM2.name}", "success"]


@BOTH
async def test_a_pull_that_fails_says_why(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stream: bool,
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    (tmp_path / "models").touch()  # a file where a folder has to be
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path))
    answer = await client.post("/api/pull", json={"model": "smollm2", "stream": stream})
    error = lines_of(answer)[-1]["error"] if stream else error_of(answer)
    assert "Could not make" in error
    [record] = caplog.records
    fields = record.__dict__["fields"]
    assert (fields["model"], fields["reason"]) == ("smollm2", "server_error")


def test_progress_is_told_in_lines() -> None:
    told: list[Any] = []
    progress = LineProgress(told.append)
    progress.start("downloading", 100, unit="bytes", already=20)
    for _ in range(80):
        progress.advance(1)
    progress.done()
    progress.start("converting", 7, unit="tensors")
    lines = [json.loads(line) for line in told]
    digest = lines[0]["digest"]
    head = {"status": "downloading", "digest": digest, "total": 100}
    assert (lines[0], lines[-2]) == ({**head, "completed": 20}, {**head, "completed": 100})
    assert digest.startswith("sha256:")
    assert lines[-1] == {"status": "converting"}
    assert len(lines) < 10


async def test_embedding_nothing_needs_no_model(client: Client) -> None:
    for nothing in ("", []):
        answer = await client.post("/api/embed", json={"model": "scripted", "input": nothing})
        assert answer.json["embeddings"] == []
    answer = await client.post("/api/embeddings", json={"model": "scripted", "prompt": ""})
    assert answer.json == {"embedding": []}


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    tiny.build(folder / "tiny-bert", "bert")
    return folder


@needs_extra
async def test_vectors_are_those_of_the_openai_api(start: Start, vectors: Path) -> None:
    client = await start(Settings(), Root(vectors, "tests", "folders"))
    texts = ["the ships that passed", "a blue book"]
    ask = {"model": "tiny-bert", "input": texts}
    theirs = (await client.post("/v1/embeddings", json=ask)).json
    rows = [item["embedding"] for item in theirs["data"]]
    ours = (await client.post("/api/embed", json=ask)).json
    assert ours["embeddings"] == rows
    assert ours["model"] == "tiny-bert"
    assert ours["prompt_eval_count"] == theirs["usage"]["prompt_tokens"]
    assert ours["total_duration"] > 0
    older = {"model": "tiny-bert:latest", "prompt": texts[0]}
    [first] = (await client.post("/api/embed", json={**ask, "input": texts[0]})).json["embeddings"]
    assert (await client.post("/api/embeddings", json=older)).json == {"embedding": first}
    shown = (await client.post("/api/show", json={"model": "tiny-bert"})).json
    assert shown["capabilities"] == ["embedding"]
    # Ollama cuts what is too long, unless it is told not to.
    long = {"model": "tiny-bert", "input": "ships " * 5000}
    assert len((await client.post("/api/embed", json=long)).json["embeddings"]) == 1
    refused = await client.post("/api/embed", json={**long, "truncate": False})
    assert (refused.status, bool(error_of(refused))) == (400, True)
