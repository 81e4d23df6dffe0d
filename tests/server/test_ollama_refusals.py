"""What Ollama's API refuses, in its form of an error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.server.asking_ollama import (
    asked,
    error_of,
)
from tests.server.running import Client, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(scripted_model: Path, long_model: Path) -> AsyncIterator[Client]:
    """One server for all of these tests."""
    roots = [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]
    async with started() as start:
        yield await start(Settings(), *roots)


@pytest.mark.parametrize(
    ("path", "more", "words"),
    [
        ("/api/chat", {"model": "absent"}, "'absent' was not found"),
        ("/api/chat", {"messages": [{"role": "user", "images": ["aGk="]}]}, "reads text only"),
        ("/api/chat", {"messages": [{"role": "oracle"}]}, "must be system, user"),
        ("/api/chat", {"messages": [{"role": "assistant", "content": "x"}]}, "nothing to answer"),
        ("/api/chat", {"messages": "hello"}, "'messages' must be a list"),
        ("/api/chat", {"format": "xml"}, '"json" or a JSON schema'),
        ("/api/chat", {"think": "hard"}, "'think' must be"),
        ("/api/chat", {"options": {"temperature": 9}}, "'options.temperature' must be"),
        ("/api/chat", {"options": {"stop": [""]}}, "'options.stop[0]' is an empty"),
        ("/api/generate", {"prompt": "x", "template": "{{ .Prompt }}"}, "'template' is not served"),
        ("/api/generate", {"prompt": "x", "images": ["aGk="]}, "reads text only"),
        ("/api/generate", {"prompt": "x", "context": [1, 2]}, "'context' is not one"),
        ("/api/generate", {"prompt": "x", "raw": True, "system": "y"}, "'system' is for a conv"),
        ("/api/embed", {"input": "x"}, "can't do this"),
        ("/api/embed", {}, "'input' is missing"),
        ("/api/show", {"model": ""}, "'model' is missing"),
        ("/api/show", {"model": "absent"}, "'absent' was not found"),
        ("/api/pull", {"model": "absent"}, "can't be fetched"),
        ("/api/copy", {"source": "absent", "destination": "b"}, "'absent' was not found"),
        ("/api/copy", {"source": "scripted", "destination": "/b"}, "'destination' must be a name"),
        ("/api/copy", {"source": "scripted", "destination": "LONG:latest"}, "own name here"),
        ("/api/copy", {"destination": "b"}, "'source' is missing"),
        ("/api/create", {"from": "scripted"}, "made and published elsewhere"),
        ("/api/push", {}, "made and published elsewhere"),
    ],
)
@pytest.mark.clients(47, 101)
async def test_points_47_and_101_errors_are_a_text(
    client: Client, path: str, more: dict[str, Any], words: str
) -> None:
    ask = asked("hi") if path == "/api/chat" else {"model": "scripted"}
    answer = await client.post(path, json={**ask, **more})
    assert answer.status in (400, 404)
    assert words in error_of(answer)


@pytest.mark.clients(101)
async def test_point_101_a_folder_that_was_given_is_not_deleted(client: Client) -> None:
    answer = await client.send("DELETE", "/api/delete", json={"model": "scripted"})
    assert (answer.status, "remove it yourself" in error_of(answer)) == (400, True)
    names = [model["name"] for model in (await client.get("/api/tags")).json["models"]]
    assert "scripted" in names


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/chat", 405),
        ("POST", "/api/tags", 405),
        ("GET", "/api/absent", 404),
        ("POST", "/v1/api/absent/", 404),
        ("HEAD", "/api/blobs/sha256:00", 404),
    ],
)
@pytest.mark.clients(62)
async def test_point_62_wrong_paths_and_methods(
    client: Client, method: str, path: str, status: int
) -> None:
    answer = await client.send(method, path)
    assert answer.status == status
    if method != "HEAD":
        assert error_of(answer)


async def test_broken_json_is_a_400(client: Client) -> None:
    for path in ("/api/chat", "/api/generate", "/api/show", "/api/pull", "/api/embed"):
        answer = await client.post(path, data=b'{"model": ')
        assert answer.status == 400
        assert error_of(answer)
