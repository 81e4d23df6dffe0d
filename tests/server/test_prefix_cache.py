"""What was read once is not read again: in usage, in the figures, and after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.roots import Root
from maxi_mlx.core.settings import Settings
from tests.server.conftest import Start
from tests.server.running import Client, started

CHAT = "/v1/chat/completions"
LONG = "Tell me of the sea and the ships on it. " * 20


def ask(*contents: str, **more: Any) -> dict[str, Any]:
    messages = [
        {"role": "assistant" if place % 2 else "user", "content": content}
        for place, content in enumerate(contents)
    ]
    return {"model": "scripted", "messages": messages, "max_tokens": 8, "temperature": 0, **more}


async def usage(client: Client, body: dict[str, Any]) -> tuple[int, int]:
    """The prompt's tokens, and those of them that were cached."""
    answer = await client.post(CHAT, json=body)
    assert answer.status == 200, answer.json
    got = answer.json["usage"]
    return got["prompt_tokens"], got["prompt_tokens_details"]["cached_tokens"]


async def test_a_conversation_goes_on_from_where_it_was(start: Start, scripted_model: Path) -> None:
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))
    first = await client.post(CHAT, json=ask(LONG))
    reply = first.json["choices"][0]["message"]["content"]
    assert first.json["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    prompt_tokens = first.json["usage"]["prompt_tokens"]
    _, cached = await usage(client, ask(LONG, reply, "And then?"))
    assert cached >= prompt_tokens
    other, cached = await usage(client, ask(LONG + "Briefly."))
    assert prompt_tokens - 10 < cached < other
    assert (await usage(client, ask(LONG)))[1] == prompt_tokens - 1


async def test_a_request_may_opt_out(start: Start, scripted_model: Path) -> None:
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))
    for cache, is_cached in ((False, False), (None, False), (False, False), (True, True)):
        _, cached = await usage(client, ask(LONG, cache=cache))
        assert (cached > 0) is is_cached
    wrong = await client.post(CHAT, json=ask(LONG, cache="no"))
    assert wrong.status == 400
    assert wrong.error["param"] == "cache"


async def test_text_and_chat_share_what_they_have_in_common(
    start: Start, scripted_model: Path
) -> None:
    """Whatever the endpoint: a prefix is a prefix."""
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))
    text = {"model": "scripted", "prompt": LONG, "max_tokens": 4}
    first = (await client.post("/v1/completions", json=text)).json["usage"]
    again = (await client.post("/v1/completions", json={**text, "stream": False})).json["usage"]
    assert again["prompt_tokens_details"]["cached_tokens"] == first["prompt_tokens"] - 1


async def test_figures_of_the_cache(start: Start, scripted_model: Path) -> None:
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))
    await usage(client, ask(LONG))
    await usage(client, ask(LONG))
    async with asyncio.timeout(30):
        while True:
            got = (await client.get("/v1/cache/stats")).json
            if got["prefix_cache"]["hits"] and got["prefix_cache"]["disk"]["files"]:
                break
            await asyncio.sleep(0.05)
    prefixes = got["prefix_cache"]
    assert (prefixes["hits"], prefixes["misses"]) == (1, 1)
    assert prefixes["hit_rate_last_hour"] == 0.5
    assert prefixes["tokens"] >= prefixes["tokens_saved"] > 100
    assert 0 < prefixes["bytes"] <= prefixes["limit_bytes"]
    assert prefixes["disk"]["fault"] is None
    [model] = got["models"]
    assert model["prefix_cache"]["bytes"] == prefixes["bytes"]
    assert model["prefix_cache"]["disk"]["files"] > 0


@pytest.mark.usefixtures("patient_with_disk")
async def test_what_was_read_outlives_the_server(scripted_model: Path, tmp_path: Path) -> None:
    settings = Settings(cache_dir=tmp_path / "kept")
    root = Root(scripted_model, "tests", "folders")
    async with started() as start:
        prompt_tokens, cached = await usage(await start(settings, root), ask(LONG))
        assert cached == 0
    async with started() as start:
        client = await start(settings, root)
        assert await usage(client, ask(LONG)) == (prompt_tokens, prompt_tokens - 1)
    async with started() as start:
        client = await start(Settings(cache_dir=tmp_path / "other"), root)
        assert (await usage(client, ask(LONG)))[1] == 0


@pytest.mark.parametrize("settings", [Settings(cache_memory_bytes=0), Settings(cache_disk_bytes=0)])
async def test_without_memory_or_disk(
    settings: Settings, start: Start, scripted_model: Path
) -> None:
    client = await start(settings, Root(scripted_model, "tests", "folders"))
    await usage(client, ask(LONG))
    cached = (await usage(client, ask(LONG)))[1]
    assert (cached > 0) is (settings.cache_memory_bytes != 0)
    assert (await client.get("/v1/cache/stats")).json["prefix_cache"]["disk"] is None


@pytest.mark.parametrize("system_role", ["system", "developer"])
async def test_a_line_for_billing_does_not_spoil_the_hit(
    system_role: str, start: Start, scripted_model: Path
) -> None:
    """It is another one in every request, and stands before everything else."""
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))

    def turn(number: int) -> dict[str, Any]:
        billing = f"x-anthropic-billing-header: cc_version=2.1.197; cch={number:05x};"
        body = ask(LONG)
        blocks = [{"type": "text", "text": text} for text in (billing, "You are an agent.")]
        body["messages"] = [{"role": system_role, "content": blocks}, *body["messages"]]
        return body

    first, cached = await usage(client, turn(1))
    assert cached == 0
    assert await usage(client, turn(0xFFFFF)) == (first, first - 1)


@pytest.mark.slow
async def test_a_prompt_counts_once_however_many_answers_it_has(
    start: Start, scripted_model: Path
) -> None:
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))
    prompts = [LONG, "Of the land. " * 30]
    body = {"model": "scripted", "prompt": prompts, "n": 3, "max_tokens": 4, "temperature": 1}
    for cached_but in (None, len(prompts)):
        got = (await client.post("/v1/completions", json=body)).json["usage"]
        cached = got["prompt_tokens_details"]["cached_tokens"]
        assert cached == (0 if cached_but is None else got["prompt_tokens"] - cached_but)
