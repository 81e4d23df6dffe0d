"""What goes wrong reaches a program as an exception of the official SDK, in the server's words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from maxi_mlx.core.settings import STRATEGIES, Settings
from tests.clients.conftest import Served, serving
from tests.clients.test_openai_sdk import NO_END, ask, make_client
from tests.engine.asking import slowed


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "kind", "code", "param"),
    [
        ({"temperature": 3}, openai.BadRequestError, None, "temperature"),
        ({"stop": [""]}, openai.BadRequestError, None, "stop[0]"),
        ({"messages": []}, openai.BadRequestError, None, "messages"),
        ({"model": "scriptde"}, openai.NotFoundError, "model_not_found", "model"),
        (
            {"messages": [{"role": "user", "content": "word " * 5000}]},
            openai.BadRequestError,
            "context_length_exceeded",
            "messages",
        ),
    ],
    ids=["temperature", "stop", "messages", "model", "context"],
)
@pytest.mark.usefixtures("patient_door")
def test_errors_of_a_request(
    served: Served,
    fields: dict[str, Any],
    kind: type[openai.APIStatusError],
    code: str | None,
    param: str,
    stream: bool,
) -> None:
    with make_client(served) as client, pytest.raises(kind) as caught:
        client.chat.completions.create(**ask(**fields), stream=stream)
    assert (caught.value.code, caught.value.param) == (code, param)
    assert caught.value.type == "invalid_request_error"
    assert str(caught.value.request_id).startswith("req-")
    # The server's own words, not "Error code: 400".
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["message"] in str(caught.value)


@pytest.fixture(scope="module")
def strict(models: Path) -> Iterator[Served]:
    """A server that wants a key and small bodies, runs one request, and lets none wait."""
    scheduler = replace(STRATEGIES["balanced"], max_running_rows=1, max_waiting_requests=0)
    settings = Settings(api_keys=("secret",), max_body_bytes=3000, scheduler=scheduler)
    with serving(models, settings) as served:
        yield served


def test_a_wrong_key(strict: Served) -> None:
    with make_client(strict) as client, pytest.raises(openai.AuthenticationError) as caught:
        client.chat.completions.create(**ask())
    assert (caught.value.status_code, caught.value.code) == (401, "invalid_api_key")


def test_a_body_too_large(strict: Served) -> None:
    with (
        make_client(strict, api_key="secret") as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.chat.completions.create(**ask(user="x" * 4000))
    assert (caught.value.status_code, caught.value.code) == (413, "request_too_large")


@pytest.mark.parametrize("stream", [False, True])
def test_no_room_to_wait(strict: Served, stream: bool) -> None:
    with make_client(strict, api_key="secret") as client:
        endless = ask(max_tokens=None, logit_bias=NO_END)
        with slowed(), client.chat.completions.create(**endless, stream=True) as running:
            next(iter(running))
            with pytest.raises(openai.RateLimitError) as caught:
                client.chat.completions.create(**ask(), stream=stream)
    assert (caught.value.status_code, caught.value.code) == (429, "overloaded")
    assert caught.value.response.headers["retry-after"] == "1"
    strict.wait(strict.is_idle)


def test_a_right_key(strict: Served) -> None:
    with make_client(strict, api_key="secret") as client:
        assert len(client.models.list().data) == 3
