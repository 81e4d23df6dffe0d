"""A model's own settings and adapters as clients see them: names in every API, what is in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.model_settings import ModelSettings
from maxi_mlx.core.settings import Settings
from tests.models.adapter import build_adapter
from tests.server.asking import CHAT
from tests.server.running import Client, Start

ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}


@pytest.fixture(scope="session")
def adapters(scripted_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    build_adapter(folder / "poet", scripted_model, model="scripted")
    return folder


@pytest.fixture
async def client(start: Start, scripted_model: Path, adapters: Path) -> Client:
    own = ModelSettings(
        aliases=("gpt-4o",), context_tokens=500, keep_alive_s=60.0, sampling=(("top_k", 5),)
    )
    settings = Settings(
        models={"scripted": own}, adapter_dirs=(adapters,), sources={"models": "file x.toml"}
    )
    return await start(settings, Root(scripted_model, "tests", "folders"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, ASKED),
        ("/v1/completions", {"model": "gpt-4o", "prompt": "Hi", "max_tokens": 1}),
        ("/v1/responses", {"model": "gpt-4o", "input": "Hi", "max_output_tokens": 1}),
        ("/v1/messages", ASKED),
        ("/api/chat", {**ASKED, "model": "gpt-4o:latest", "stream": False}),
        ("/api/show", {"model": "gpt-4o"}),
        (CHAT, {**ASKED, "model": "scripted:poet"}),
        (CHAT, {**ASKED, "adapters": "poet"}),
        ("/v1/completions", {"model": "", "prompt": "Hi", "adapters": "poet", "max_tokens": 1}),
        ("/v1/messages", {**ASKED, "model": "scripted:poet"}),
        ("/api/chat", {**ASKED, "model": "scripted:poet", "stream": False}),
        ("/api/show", {"model": "scripted:poet:latest"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_every_api_answers_under_the_alias_and_with_the_adapter(
    client: Client, path: str, body: dict[str, Any]
) -> None:
    assert (await client.post(path, json=body)).status == 200


async def test_the_list_names_aliases_and_the_capped_context(client: Client) -> None:
    listed, poet = (await client.get("/v1/models")).json["data"]
    assert (poet["id"], poet["parent"]) == ("scripted:poet", "scripted")
    assert "aliases" not in poet
    assert (listed["id"], listed["aliases"], listed["context_length"]) == (
        "scripted",
        ["gpt-4o"],
        500,
    )
    assert (await client.get("/v1/models/gpt-4o")).json == listed


async def test_health_shows_what_is_in_force(client: Client) -> None:
    shown = (await client.get("/health")).json["settings"]["models"]
    own = {"aliases": ["gpt-4o"], "context_tokens": 500, "keep_alive_s": 60.0, "top_k": 5}
    assert shown == {"value": {"scripted": own}, "source": "file x.toml"}


async def test_a_request_names_the_adapter_and_the_answer_the_model(client: Client) -> None:
    asked = {**ASKED, "temperature": 0, "max_tokens": 8}
    base = await client.post(CHAT, json=asked)
    poet = await client.post(CHAT, json={**asked, "adapters": "poet"})
    assert (base.json["model"], poet.json["model"]) == ("scripted", "scripted:poet")
    assert base.json["choices"][0]["message"] != poet.json["choices"][0]["message"]
    loaded = (await client.get("/health")).json["engine"]["loaded"]
    assert {model["id"]: model["base"] for model in loaded} == {
        "scripted": None,
        "scripted:poet": "scripted",
    }


async def test_responses_have_adapters_too(client: Client) -> None:
    body = {"model": "gpt-4o", "input": "Hi", "max_output_tokens": 1, "adapters": "poet"}
    assert (await client.post("/v1/responses", json=body)).json["model"] == "scripted:poet"


async def test_a_path_is_no_adapters_name(client: Client, adapters: Path) -> None:
    answer = await client.post(CHAT, json={**ASKED, "adapters": str(adapters / "poet")})
    assert (answer.status, answer.json["error"]["param"]) == (404, "adapters")
    assert "There are: 'poet'." in answer.json["error"]["message"]
