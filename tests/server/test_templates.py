"""Chat templates over HTTP: whatever a template refuses, gets wrong or never ends is a 400 with its
reason, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.text.chat_template import template
from maxi_mlx.text.chat_template.limits import Limits, Work
from tests.models.scripted import COUNT, DIALOGUES, TOOLS
from tests.server.asking import CHAT, TEXT, body, chunks_of, text_of
from tests.server.running import Client, Start

HELLO = [{"role": "user", "content": "Hello"}]
ENDLESS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    "{{ messages[0].content }}"
)
PICKY = """\
{%- for message in messages -%}
{%- if 'forbidden' in message.content -%}
{{ raise_exception('That word is not for me.') }}
{%- endif -%}
{{ message.content }}
{%- endfor -%}
{{ ' tone:' ~ tone if tone is defined else '' }}"""

Make = Callable[[str, str], Path]


@pytest.fixture
def make(tmp_path: Path, scripted_model: Path) -> Make:
    """The scripted model under another name, with another template."""

    def made(name: str, text: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(scripted_model, folder)
        config = folder / "tokenizer_config.json"
        settings = json.loads(config.read_text())
        settings["chat_template"] = text
        config.write_text(json.dumps(settings))
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        return folder

    return made


async def client_of(start: Start, *folders: Path) -> Client:
    return await start(Settings(), *(Root(folder, "tests", "folders") for folder in folders))


async def refused(client: Client, **fields: Any) -> dict[str, Any]:
    answer = await client.post(CHAT, json={"messages": HELLO, "max_tokens": 4, **fields})
    assert answer.status == 400, answer.body
    return answer.error


async def test_a_refusal_names_the_line_and_the_message(start: Start, make: Make) -> None:
    client = await client_of(start, make("picky", PICKY))
    messages = [*HELLO, {"role": "assistant", "content": "Hi"}]
    messages.append({"role": "user", "content": "a forbidden word"})
    for stream in (False, True):
        error = await refused(client, model="picky", messages=messages, stream=stream)
        assert error["param"] == "messages[2]"
        assert "That word is not for me. (in the template, line 3)" in error["message"]
    answer = await client.post(CHAT, json={"model": "picky", "messages": HELLO, "max_tokens": 1})
    assert answer.status == 200


async def test_names_for_the_template(start: Start, make: Make) -> None:
    client = await client_of(start, make("picky", PICKY))
    ask = {"model": "picky", "messages": HELLO, "max_tokens": 1}
    plain = await client.post(CHAT, json=ask)
    toned = await client.post(CHAT, json={**ask, "chat_template_kwargs": {"tone": "warm"}})
    assert toned.json["usage"]["prompt_tokens"] > plain.json["usage"]["prompt_tokens"]
    error = await refused(client, chat_template_kwargs={"messages": []})
    assert error["param"] == "chat_template_kwargs.messages"
    error = await refused(client, chat_template="{{ 1 }}")
    assert error["param"] == "chat_template"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% if %}", "syntax error in line 1"),
        ("a\nb\n{{ messages | nonsense }}", "line 3"),
    ],
    ids=["a half statement", "an unknown filter"],
)
async def test_a_broken_template_leaves_raw_prompts(
    start: Start, make: Make, text: str, words: str
) -> None:
    client = await client_of(start, make("broken", text))
    error = await refused(client, model="broken")
    assert words in error["message"]
    answer = await client.post(
        TEXT,
        json={"model": "broken", "prompt": "The capital of France is", "temperature": 0},
    )
    assert answer.json["choices"][0]["text"] == " Paris."


@pytest.mark.slow
@pytest.mark.usefixtures("patient_door")
async def test_an_endless_template_ends_and_others_go_on(
    start: Start, make: Make, scripted_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "Limits", lambda: Limits(time_s=1.5))
    client = await client_of(start, make("endless", ENDLESS), scripted_model)
    await client.post(TEXT, json={"model": "endless", "prompt": "a", "max_tokens": 1})
    await client.post(CHAT, json=body())
    is_over, look = threading.Event(), Work.look
    # No limit ends them before the other's answer is there.
    monkeypatch.setattr(Work, "look", lambda self: look(self) if is_over.is_set() else None)
    refusing = [asyncio.create_task(refused(client, model="endless")) for _ in range(2)]
    await asyncio.sleep(0.1)
    try:
        chunks = chunks_of(await client.post(CHAT, json=body("count", stream=True)))
        assert text_of(chunks) == COUNT
        assert not any(task.done() for task in refusing)
    finally:
        is_over.set()
    for error in await asyncio.gather(*refusing):
        assert "ran for more than 1.5 seconds" in error["message"]


async def test_tools_for_a_template_that_knows_none(start: Start, make: Make) -> None:
    """They are told in words; a call that is required comes in the form that those ask for."""
    client = await client_of(start, make("deaf", PICKY))
    ask = {"model": "deaf", "messages": DIALOGUES["call"].messages, "temperature": 0}
    plain = await client.post(CHAT, json={**ask, "max_tokens": 1})
    required = {"tools": TOOLS, "tool_choice": "required", "max_tokens": 60}
    told = await client.post(CHAT, json={**ask, **required})
    more = told.json["usage"]["prompt_tokens"] - plain.json["usage"]["prompt_tokens"]
    assert more > 100
    [choice] = told.json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    for call in choice["message"]["tool_calls"]:
        assert set(json.loads(call["function"]["arguments"])) >= {"city"}
