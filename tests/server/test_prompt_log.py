"""What people say is in the log where ``--log-prompts`` asks for it, a line each, and else in none
of its lines, at whatever level."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.cli.logs import JsonFormatter
from maxi_mlx.core.request import IMAGE_MARK, ChatPrompt, GenerateRequest, Image, Message
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine import scheduler
from maxi_mlx.server import generation
from maxi_mlx.server.prompt_log import PromptLog
from tests.models.scripted import DIALOGUES
from tests.server import asking
from tests.server.running import Client, Start

SECRET = "xyzzy-plugh"
LOGGED = ("maxi_mlx.prompts", "maxi_mlx.requests")


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name in LOGGED]


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    return dict(record.__dict__["fields"])


async def serving(start: Start, model: Path, **settings: Any) -> Client:
    client = await start(Settings(**settings), Root(model, "tests", "folders"))
    await client.engine.wait_ready()
    return client


async def test_prompt_and_answer_are_a_line_each_with_the_request_s_id(
    start: Start, scripted_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = await serving(start, scripted_model, log_prompts=True)
    answer = await client.post(asking.CHAT, json=asking.body())
    text = answer.json["choices"][0]["message"]["content"]
    prompt, answered, ended = told(caplog)
    identity = answer.headers["X-Request-Id"]
    assert [fields_of(each)["request"] for each in (prompt, answered, ended)] == [identity] * 3
    assert {each.levelname for each in (prompt, answered)} == {"INFO"}
    messages = [dict(message, role=message["role"]) for message in DIALOGUES["capital"].messages]
    shown = [{"role": each["role"], "text": each["content"]} for each in messages]
    asked = [{"messages": shown}]
    said = [{"choice": 0, "text": text, "reason": "stop"}]
    # Both forms of the log have it.
    assert prompt.getMessage() == f"prompt={json.dumps(asked)} request={identity}"
    assert answered.getMessage() == f"answer={json.dumps(said)} request={identity}"
    line = json.loads(JsonFormatter().format(answered))
    assert (line["answer"], line["request"]) == (said, identity)


async def test_every_api_s_words_are_logged(
    start: Start, scripted_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.prompts")
    client = await serving(start, scripted_model, log_prompts=True)
    chat = {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 4}
    for path, body in (
        ("/v1/messages", chat),
        ("/api/chat", chat),
        ("/api/generate", {"prompt": SECRET, "options": {"num_predict": 4}}),
        ("/v1/completions", {"prompt": SECRET, "max_tokens": 4, "n": 2, "stream": True}),
        ("/v1/responses", {"input": SECRET, "max_output_tokens": 4}),
    ):
        caplog.clear()
        await client.post(path, json={"model": "scripted", **body})
        prompt, answer = caplog.messages
        assert prompt.startswith("prompt=[")
        assert SECRET in prompt
        assert prompt.isprintable()
        assert answer.startswith('answer=[{"choice": 0, ')


def test_an_image_is_logged_by_its_size(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.prompts")
    seen = Message(role="user", text=IMAGE_MARK, images=(Image(b"1" * 5000, "messages[0]"),))
    PromptLog("req-1").prompt(
        GenerateRequest(id="req-1", model="m", prompts=(ChatPrompt(messages=(seen,)),))
    )
    said = {"role": "user", "text": IMAGE_MARK, "images": [{"num_bytes": 5000}]}
    assert fields_of(caplog.records[0])["prompt"] == [{"messages": [said]}]


async def test_words_can_neither_break_a_line_nor_command_a_terminal(
    start: Start, scripted_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.prompts")
    client = await serving(start, scripted_model, log_prompts=True)
    words = "größer\n\u2028\x1b[2J\x9b31m"
    await client.post(asking.TEXT, json={"model": "scripted", "prompt": words, "max_tokens": 1})
    line = caplog.messages[0]
    assert line.isprintable()
    assert "größer" in line
    assert json.loads(line.removeprefix("prompt=").rpartition(" request=")[0]) == [words]


async def test_without_it_no_word_reaches_the_log_at_any_level(
    start: Start,
    scripted_model: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    client = await serving(start, scripted_model)
    body = {"model": "scripted", "messages": [{"role": "user", "content": SECRET}], "max_tokens": 9}
    for more in ({}, {"stream": True}, {"max_tokens": SECRET}, {"tools": SECRET}, {"stop": 1}):
        await client.post(asking.CHAT, json=body | more)
    await client.post(asking.CHAT, json=body | {"response_format": {"type": SECRET}})
    await client.post(asking.TEXT, json={"model": "scripted", "prompt": SECRET * 20_000})
    await client.post("/v1/messages", json=body | {"messages": [{"role": SECRET, "content": "a"}]})
    await client.post("/api/chat", json=body)
    await client.post("/v1/responses", json={"model": "scripted", "input": [{"type": SECRET}]})
    await client.post(asking.CHAT, data=json.dumps(body).encode()[:-1])
    # A length that is too small: what is left of the prompt is taken for the next request.
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"
    await client.raw(head + b"{}" + json.dumps(body).encode(), within_s=1)
    post_token = scheduler.post_token

    def fails(token: Any, outbox: Any) -> bool:
        post_token(token, outbox)
        raise RuntimeError("injected")

    monkeypatch.setattr(scheduler, "post_token", fails)
    assert (await client.post(asking.CHAT, json=body)).status == 500
    monkeypatch.setattr(generation, "EventFeed", None)
    assert (await client.post(asking.CHAT, json=body)).status == 500
    levels = {record.levelname for record in caplog.records}
    assert levels >= {"DEBUG", "INFO", "ERROR"}
    lines = [logging.Formatter().format(record) + repr(record.args) for record in caplog.records]
    assert len(lines) > 15
    assert [line for line in lines if SECRET in line] == []
