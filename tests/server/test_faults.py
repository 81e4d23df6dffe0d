"""A fault put into each part on the way: the request concerned fails in its API's form, others
beside it don't, and the next one works."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine import scheduler
from maxi_mlx.engine.generation import Generation
from maxi_mlx.engine.mailbox import Mailbox, News, TokenNews
from maxi_mlx.text.answer import AnswerText
from tests.conftest import TinyModel
from tests.server.asking import TEXT
from tests.server.running import Answer, Client, Start

MARKED_TOKEN = 77
MARKED = {"model": "tiny-llama", "prompt": "hello", "max_tokens": 8, "temperature": 0}
PLAIN = {**MARKED, "prompt": "good morning", "max_tokens": 30}


def in_step(patch: pytest.MonkeyPatch) -> None:
    """In what the device thread does with a token."""
    post_token = scheduler.post_token

    def fails(token: Any, outbox: Any) -> bool:
        if token.token_id == MARKED_TOKEN:
            raise RuntimeError("injected")
        return post_token(token, outbox)

    patch.setattr(scheduler, "post_token", fails)


def in_detokeniser(patch: pytest.MonkeyPatch) -> None:
    feed = AnswerText.feed

    def fails(self: AnswerText, token_id: int, logprob: Any = None) -> Any:
        if token_id == MARKED_TOKEN:
            raise RuntimeError("injected")
        return feed(self, token_id, logprob)

    patch.setattr(AnswerText, "feed", fails)


def in_mailbox(patch: pytest.MonkeyPatch) -> None:
    put = Mailbox.put

    def fails(self: Mailbox, news: News) -> None:
        if isinstance(news, TokenNews) and news.token_id == MARKED_TOKEN:
            raise RuntimeError("injected")
        put(self, news)

    patch.setattr(Mailbox, "put", fails)


def in_generation(patch: pytest.MonkeyPatch) -> None:
    token = Generation._token

    def fails(self: Generation, news: TokenNews) -> Any:
        if news.token_id == MARKED_TOKEN:
            raise RuntimeError("injected")
        return token(self, news)

    patch.setattr(Generation, "_token", fails)


@pytest.fixture
def llama(tiny_model: TinyModel) -> Path:
    return tiny_model("llama")


@pytest.fixture
async def client(start: Start, llama: Path) -> Client:
    return await start(Settings(), Root(llama, "tests", "folders"))


@pytest.mark.slow
@pytest.mark.parametrize("inject", [in_step, in_detokeniser, in_mailbox, in_generation])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_only_the_request_concerned_fails(
    inject: Callable[[pytest.MonkeyPatch], None],
    stream: bool,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = (await client.post(TEXT, json=PLAIN)).json["choices"][0]["text"]
    marked = {**MARKED, "logit_bias": {str(MARKED_TOKEN): 100}, "stream": stream}
    unmarked = {**PLAIN, "logit_bias": {str(MARKED_TOKEN): -100}}
    plain = (await client.post(TEXT, json=unmarked)).json["choices"][0]["text"]
    with monkeypatch.context() as patch:
        inject(patch)
        async with asyncio.timeout(30):
            bad, good = await asyncio.gather(
                client.post(TEXT, json=marked), client.post(TEXT, json=unmarked)
            )
    assert error_of(bad, stream=stream)["type"] == "server_error"
    assert good.json["choices"][0]["text"] == plain
    assert (await client.post(TEXT, json=PLAIN)).json["choices"][0]["text"] == expected
    assert (await client.get("/health")).json["status"] == "ok"


async def test_a_fault_of_the_scheduler_itself_is_told_by_health(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = {**MARKED, "logit_bias": {str(MARKED_TOKEN): 100}}
    with monkeypatch.context() as patch:
        in_step(patch)
        async with asyncio.timeout(30):
            bad = await client.post(TEXT, json=marked)
    assert error_of(bad, stream=False)["message"] == "The engine failed: injected"
    assert (await client.post(TEXT, json=MARKED)).status == 200
    async with asyncio.timeout(30):
        while (await client.get("/health")).json["engine"]["fault"] is None:
            await asyncio.sleep(0.05)
    health = (await client.get("/health")).json
    assert health["engine"]["fault"] == "RuntimeError: injected"
    assert health["status"] == "ok"


def error_of(answer: Answer, *, stream: bool) -> dict[str, Any]:
    if not stream:
        assert answer.status == 500
        return answer.error
    assert answer.status == 200
    # The last event, and no [DONE] after it.
    last = answer.body.decode().strip().split("\n\n")[-1]
    return dict(json.loads(last.removeprefix("data: "))["error"])
