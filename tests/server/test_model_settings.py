"""A model's own settings as clients see them: its aliases in every API, and what is in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.model_settings import ModelSettings
from maxi_mlx.core.settings import Settings
from tests.server.asking import CHAT
from tests.server.running import Client, Start

ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}


@pytest.fixture
async def client(start: Start, scripted_model: Path) -> Client:
    own = ModelSettings(
        aliases=("gpt-4o",), context_tokens=500, keep_alive_s=60.0, sampling=(("top_k", 5),)
    )
    settings = Settings(models={"scripted": own}, sources={"models": "file x.toml"})
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
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_every_api_answers_under_the_alias(
    client: Client, path: str, body: dict[str, Any]
) -> None:
    assert (await client.post(path, json=body)).status == 200


async def test_the_list_names_aliases_and_the_capped_context(client: Client) -> None:
    [listed] = (await client.get("/v1/models")).json["data"]
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
