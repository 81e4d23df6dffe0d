"""What `maxi-mlx connect` asks a running server: where it is, its key, which model is in use."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from maxi_mlx.cli.connect import connect
from maxi_mlx.core.errors import NoAnswer, SetupError
from maxi_mlx.core.settings import Settings
from tests.clients.conftest import Served, serving, variables_in
from tests.clients.scripted_engine import ScriptedEngine
from tests.clients.turns import script

make_scripted = partial(ScriptedEngine, script=script)
LLM = "llm"  # its settings are a list with all that is asked for


@pytest.fixture(scope="module")
def locked(models: Path) -> Iterator[Served]:
    """A server with a key, and a model that it was started with."""
    settings = Settings(api_keys=("secret",), model="other/twin")
    with serving(models, settings, make_engine=make_scripted) as served:
        yield served


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*arguments: str) -> str:
        return CliRunner().invoke(connect, [*arguments], catch_exceptions=False).stdout

    return run


def test_the_model_it_was_started_with(told: Callable[..., str], locked: Served) -> None:
    shown = told(LLM, "--url", locked.base_url, "--api-key", "secret")
    assert "model_id: other/twin\n" in shown
    assert f"api_base: {locked.base_url}\n" in shown
    assert "supports_tools: true\n" in shown
    assert "llm keys set maxi-mlx --value secret\n" in shown


def test_by_the_settings_alone(
    told: Callable[..., str], locked: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = locked.base_url.removesuffix("/v1")
    monkeypatch.setenv("MAXI_MLX_PORT", address.rpartition(":")[2])
    monkeypatch.setenv("MAXI_MLX_API_KEY", "secret")
    assert variables_in(told("anthropic")) == {
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "secret",
    }


@pytest.mark.parametrize("end", ["", "/", "/v1/"])
def test_a_model_by_any_of_its_names(told: Callable[..., str], locked: Served, end: str) -> None:
    url = locked.base_url.removesuffix("/v1") + end
    shown = told(LLM, "--url", url, "--api-key", "secret", "--model", "SCRIPTED:latest")
    assert "model_id: scripted\n" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "wants its API key; set MAXI_MLX_API_KEY"),
        (["--api-key", "wrong"], "wants its API key"),
        (["--api-key", "secret", "--model", "nobody"], "The model 'nobody' was not found."),
    ],
)
def test_refusals(
    told: Callable[..., str], locked: Served, arguments: list[str], words: str
) -> None:
    with pytest.raises(NoAnswer) as caught:
        told(LLM, "--url", locked.base_url, *arguments)
    assert words in caught.value.message


def test_the_model_in_use(told: Callable[..., str], models: Path) -> None:
    with serving(models) as served:
        with pytest.raises(SetupError, match="several models; choose one by --model: "):
            told(LLM, "--url", served.base_url)
        body = {"model": "acme/twin", "messages": [{"role": "user", "content": "hi"}]}
        body["max_tokens"] = 1
        url = f"{served.base_url}/chat/completions"
        urllib.request.urlopen(url, json.dumps(body).encode(), timeout=120).close()
        assert "model_id: acme/twin\n" in told(LLM, "--url", served.base_url)


def test_the_only_model(told: Callable[..., str], scripted_model: Path, tmp_path: Path) -> None:
    shutil.copytree(scripted_model, tmp_path / "models" / "only")
    with serving(tmp_path / "models", make_engine=make_scripted) as served:
        assert "model_id: only\n" in told(LLM, "--url", served.base_url)


def test_another_program(told: Callable[..., str]) -> None:
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as other:
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{other.server_port}"
        with pytest.raises(SetupError, match=f"another program than maxi-mlx answers at {url}"):
            told(LLM, "--url", url)
        thread.join(timeout=10)
