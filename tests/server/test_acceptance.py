"""What other local servers were seen to get wrong: here each holds, over HTTP with real models."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import STRATEGIES, Settings
from tests.models.scripted import COMPLETIONS, COUNT, DIALOGUES, STORY
from tests.server.asking import (
    CHAT,
    NO_END,
    TEXT,
    body,
    chunks_of,
    is_idle,
    long_text,
    said,
    text_of,
    until,
)
from tests.server.running import Client, Start

SETTINGS = Settings(scheduler=replace(STRATEGIES["balanced"], prefill_slice_tokens=64))
CONTEXT_LENGTH = 4096  # of the scripted model
CAPITAL = DIALOGUES["capital"].reply


@pytest.fixture
async def client(
    start: Start,
    scripted_model: Path,
    long_model: Path,
    tiny_model: Callable[[str], Path],
) -> Client:
    folders = (scripted_model, long_model, tiny_model("llama"))
    return await start(SETTINGS, *(Root(folder, "tests", "folders") for folder in folders))


@pytest.fixture(scope="session")
def tokenizer(scripted_model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(scripted_model / "tokenizer.json"))


async def assert_well(client: Client) -> None:
    """A good request is answered, and the server says that it is well."""
    assert await said(client, CHAT, body(), stream=False) == (CAPITAL, "stop", NUM_CAPITAL_TOKENS)
    assert (await client.get("/health")).json["status"] == "ok"


async def borders(client: Client, ask: dict[str, Any]) -> list[int]:
    """Where the tokens of an answer end, in bytes."""
    answer = await client.post(CHAT, json={**ask, "logprobs": True})
    tokens = answer.json["choices"][0]["logprobs"]["content"]
    return list(itertools.accumulate(len(token["bytes"]) for token in tokens))


NUM_CAPITAL_TOKENS = 20

STOPS = {
    "inside tokens": ("story", "hted the shi", None),
    "white space before it": ("count", "13", None),
    "a line break before it": ("list", "Gre", None),
    "white space of its own": ("count", ", 21, ", None),
    "in a character of several bytes": ("japanese", "界", None),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "stop"),
    [
        ("story", "unted the shi"),
        ("story", "ery night he co"),
        ("count", "3, 1"),
        ("list", "\n2. Gre"),
        ("code", "ef ad"),
        ("japanese", "界！今日"),
        ("emoji", "‍👩‍"),
    ],
)
async def test_row_stop_string_inside_tokens(
    client: Client, name: str, stop: str, stream: bool
) -> None:
    reply = DIALOGUES[name].reply
    place = reply.index(stop)
    ends = await borders(client, body(name))
    last = len(reply[: place + len(stop)].encode())
    text, reason, num_tokens = await said(
        client, CHAT, body(name, stop=[stop, "never said"]), stream=stream
    )
    assert (text, reason) == (reply[:place], "stop")
    assert num_tokens == sum(end < last for end in ends) + 1
