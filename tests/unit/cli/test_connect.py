"""``maxi-mlx connect``: every client's settings, shown and written."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from maxi_mlx.cli.clients import CLIENTS
from maxi_mlx.cli.clients.guide import SettingsFile
from maxi_mlx.cli.connect import connect
from maxi_mlx.core.errors import MaxiError, SetupError
from tests.unit.cli.commands import free_port, run

Run = Callable[..., Result]

WITH_FILE = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "opencode": ".config/opencode/opencode.json",
    "qwen-code": ".qwen/settings.json",
    "aider": ".aider.conf.yml",
    "continue": ".continue/config.yaml",
    "zed": ".config/zed/settings.json",
    "llm": "llm/extra-openai-models.yaml",
    "promptfoo": "promptfooconfig.yaml",
}


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> Path:
    """The folder of a user who has set none of what moves clients' files; also the current one."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "CONTINUE_GLOBAL_DIR"):
        monkeypatch.delenv(name, raising=False)
    # Where it lies by itself, differs between systems.
    monkeypatch.setenv("LLM_USER_PATH", str(home / "llm"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MAXI_MLX_PORT", str(port))
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def connected(home: Path, scripted_model: Path) -> Run:
    """Runs the command, with the scripted model in the catalog and no server."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(
            connect, [*arguments, "--model-dir", str(scripted_model.parent)], catch_exceptions=False
        )

    return run


def read(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return json.loads(text) if path.suffix == ".json" else YAML(typ="safe").load(text)


def test_the_clients() -> None:
    result = CliRunner().invoke(connect, [])
    names = [line.split()[0] for line in result.output.splitlines()]
    assert names == list(CLIENTS)
    assert set(names) >= set(WITH_FILE)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("key", [None, "secret"])
def test_each_client_is_told_where_and_what(
    connected: Run, name: str, port: int, key: str | None
) -> None:
    result = connected(name, *(["--api-key", key] if key else []))
    assert result.exit_code == 0
    told = result.stdout
    if name != "cursor":  # whose address is a tunnel's
        assert f"http://127.0.0.1:{port}" in told
    if name not in (
        "openai",
        "anthropic",
        "ollama",
        "litellm",
        "open-webui",
    ):  # which ask the server
        assert "scripted" in told
    assert ("secret" in told) == (key is not None)
    assert "None" not in told


@pytest.mark.parametrize("name", CLIENTS)
def test_write(connected: Run, home: Path, name: str, port: int) -> None:
    if name not in WITH_FILE:
        with pytest.raises(SetupError, match="has no settings file that can be written"):
            connected(name, "--write")
        assert os.listdir(home) == []
        return
    path = home / WITH_FILE[name]
    first = connected(name, "--write")
    assert (first.exit_code, f"to {path}\n" in first.stdout) == (0, True)
    content = path.read_text()
    assert content in connected(name).stdout
    assert f"http://127.0.0.1:{port}" in content
    second = connected(name, "--write")
    assert f"{path} says so already\n" in second.stdout
    assert path.read_text() == content
    assert not path.with_name(path.name + ".bak").exists()


# What a file holds of its user's, before and after.
OTHERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "claude-code": ('{"env": {"A": "b"}, "model": "opus"}', lambda read: read["env"]["A"]),
    "codex": ("[tools]\nb = 1\n", lambda read: read["tools"]["b"]),
    "opencode": ('{"provider": {"x": {"name": "b"}}}', lambda read: read["provider"]["x"]["name"]),
    "qwen-code": ('{"ui": {"theme": "b"}}', lambda read: read["ui"]["theme"]),
    "aider": ("dark-mode: true\n", lambda read: read["dark-mode"]),
    "continue": ("name: b\nmodels:\n  - name: other\n", lambda read: read["models"][0]["name"]),
    "zed": ('{"agent": {"enabled": true}, "b": 1}', lambda read: read["agent"]["enabled"]),
    "llm": ("- model_id: other\n", lambda read: read[0]["model_id"]),
    "promptfoo": ("prompts: [b]\nproviders: [echo]\n", lambda read: read["providers"][0]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_settings_stay(connected: Run, home: Path, name: str, port: int) -> None:
    old, theirs = OTHERS[name]
    path = home / WITH_FILE[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(old)
    before = theirs(read(path))
    result = connected(name, "--write")
    backup = path.with_name(path.name + ".bak")
    assert f"as it was, it is in {backup}\n" in result.stdout
    assert backup.read_text() == old
    assert theirs(read(path)) == before
    assert f"http://127.0.0.1:{port}" in path.read_text()


def test_a_file_that_can_not_be_read_is_left(connected: Run, home: Path) -> None:
    path = home / WITH_FILE["codex"]
    path.parent.mkdir()
    path.write_text("a = [")
    with pytest.raises(SetupError, match=r"is no TOML that can be read \(.*\), and was left as it"):
        connected("codex", "--write")
    assert path.read_text() == "a = ["


def test_claude_code(connected: Run, home: Path, port: int) -> None:
    connected("claude-code", "--write")
    assert read(home / ".claude/settings.json")["env"] == {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "scripted",
        "ANTHROPIC_SMALL_FAST_MODEL": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def test_codex_with_a_key(connected: Run, home: Path, port: int) -> None:
    result = connected("codex", "--write", "--api-key", "it's")
    assert read(home / ".codex/config.toml") == {
        "model": "scripted",
        "model_provider": "maxi-mlx",
        "model_context_window": 4096,
        "model_providers": {
            "maxi-mlx": {
                "name": "maxi-mlx",
                "base_url": f"http://127.0.0.1:{port}/v1",
                "wire_api": "responses",
                "env_key": "MAXI_MLX_API_KEY",
            }
        },
    }
    assert result.stdout.splitlines()[-1] == """export MAXI_MLX_API_KEY='it'"'"'s'"""


def test_what_the_model_can_do(connected: Run, home: Path) -> None:
    connected("continue", "--write")
    connected("opencode", "--write")
    [model] = read(home / ".continue/config.yaml")["models"]
    assert model["capabilities"] == ["tool_use"]
    assert model["defaultCompletionOptions"] == {"contextLength": 4096}
    found = read(home / ".config/opencode/opencode.json")
    assert found["model"] == "maxi-mlx/scripted"
    assert found["provider"]["maxi-mlx"]["models"]["scripted"] == {
        "name": "scripted",
        "tool_call": True,
        "limit": {"context": 4096, "output": 1024},
    }


def test_opencode_with_comments_in_its_file(connected: Run, home: Path) -> None:
    path = home / ".config/opencode/opencode.jsonc"
    path.parent.mkdir(parents=True)
    path.write_text('{\n  // mine\n  "theme": "x",\n}\n')
    connected("opencode", "--write")
    assert "// mine" in path.read_text()
    assert "maxi-mlx" in path.read_text()


@pytest.mark.parametrize(
    ("variable", "name", "file"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", "settings.json"),
        ("CODEX_HOME", "codex", "config.toml"),
        ("CONTINUE_GLOBAL_DIR", "continue", "config.yaml"),
        ("XDG_CONFIG_HOME", "zed", "zed/settings.json"),
    ],
)
def test_files_that_were_moved(
    connected: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    name: str,
    file: str,
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "moved"))
    connected(name, "--write")
    assert (tmp_path / "moved" / file).exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["emacs"], "no client 'emacs' is known; there are claude-code, codex, "),
        (["codex", "--model", "none"], "The model 'none' was not found. The nearest here: "),
        (["codex", "--url", "localhost"], "flag --url: 'localhost' is no address such as"),
        (["codex", "--url", "http://[::1"], "flag --url: 'http://[::1' is no address such as"),
        (["codex", "--url", "http://a:99999"], "flag --url: 'http://a:99999' is no address"),
        (["codex", "--url", "http://a..b"], "no server answers at http://a..b; "),
        (["codex", "--api-key", "a\n", "--url", "http://a"], "flag --api-key: it must be a key"),
        (["codex", "--url", "http://127.0.0.1:9"], "no server answers at http://127.0.0.1:9; "),
        (["codex", "--model-dir", "/no/such"], "flag --model-dir: /no/such does not exist"),
    ],
)
def test_what_can_not_be(connected: Run, arguments: list[str], words: str) -> None:
    with pytest.raises(MaxiError) as caught:
        connected(*arguments)
    assert words in caught.value.message


def test_several_models_and_none(home: Path, tmp_path: Path, scripted_model: Path) -> None:
    def run(folder: str) -> Result:
        arguments = ["llm", "--model-dir", str(tmp_path / folder)]
        return CliRunner().invoke(connect, arguments, catch_exceptions=False)

    (tmp_path / "none").mkdir()
    with pytest.raises(SetupError, match="`maxi-mlx pull smollm2` fetches a small one"):
        run("none")
    for name in ("one", "two"):
        shutil.copytree(scripted_model, tmp_path / "several" / name)
    with pytest.raises(SetupError, match="several models; choose one by --model: one, two"):
        run("several")


def test_as_a_program(home: Path, scripted_model: Path) -> None:
    result = run("connect", "llm", "--model-dir", str(scripted_model.parent), home=home)
    assert result.returncode == 0
    assert "model_id: scripted" in result.stdout
    assert "extra-openai-models.yaml:\n" in result.stderr


def test_every_file_is_under_the_home(connected: Run, home: Path) -> None:
    from maxi_mlx.cli.clients.guide import Server

    server = Server(url="http://x", api_key=None, model="m", context_length=None, takes_tools=False)
    for client in CLIENTS.values():
        for part in client.guide(server):
            if isinstance(part, SettingsFile):
                assert part.path.is_relative_to(home)
