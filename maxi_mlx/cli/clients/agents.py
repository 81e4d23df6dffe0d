"""Agents of the command line: what each wants to know, and the file it reads that from."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from maxi_mlx.cli.clients.guide import Block, Client, Part, Server, SettingsFile

PROVIDER = "maxi-mlx"  # what we are called where a client keeps several providers
KEY_VARIABLE = "MAXI_MLX_API_KEY"
# opencode asks for so many tokens of answer at most, and keeps them free of the context.
MAX_ANSWER_TOKENS = 8192


def claude_code(server: Server) -> tuple[Part, ...]:
    variables = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_AUTH_TOKEN": server.key,
        "ANTHROPIC_MODEL": server.model,
        "ANTHROPIC_SMALL_FAST_MODEL": server.model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    folder = _folder("CLAUDE_CONFIG_DIR", Path.home() / ".claude")
    return (
        SettingsFile(path=folder / "settings.json", format="json", settings={"env": variables}),
        Block(
            intro="Or for one shell alone:",
            language="sh",
            text=exports(variables),
            is_instead=True,
        ),
    )


def codex(server: Server) -> tuple[Part, ...]:
    provider = {"name": PROVIDER, "base_url": server.base_url, "wire_api": "responses"}
    settings: dict[str, Any] = {"model": server.model, "model_provider": PROVIDER}
    if server.context_length is not None:
        settings["model_context_window"] = server.context_length
    key: tuple[Part, ...] = ()
    if server.api_key is not None:
        provider["env_key"] = KEY_VARIABLE
        line = exports({KEY_VARIABLE: server.api_key})
        key = (
            Block(intro="Where Codex is started, as it keeps no keys:", language="sh", text=line),
        )
    settings["model_providers"] = {PROVIDER: provider}
    folder = _folder("CODEX_HOME", Path.home() / ".codex")
    return (SettingsFile(path=folder / "config.toml", format="toml", settings=settings), *key)


def opencode(server: Server) -> tuple[Part, ...]:
    model: dict[str, Any] = {"name": server.model, "tool_call": server.takes_tools}
    if server.context_length is not None:
        answer = min(MAX_ANSWER_TOKENS, server.context_length // 4)
        model["limit"] = {"context": server.context_length, "output": answer}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": PROVIDER,
        "options": {"baseURL": server.base_url, "apiKey": server.key},
        "models": {server.model: model},
    }
    settings = {"provider": {PROVIDER: provider}, "model": f"{PROVIDER}/{server.model}"}
    folder = _folder("XDG_CONFIG_HOME", Path.home() / ".config") / "opencode"
    with_comments = folder / "opencode.jsonc"
    path = with_comments if with_comments.exists() else folder / "opencode.json"
    defaults = {"$schema": "https://opencode.ai/config.json"}
    return (SettingsFile(path=path, format="json", settings=settings, defaults=defaults),)


def cline(server: Server) -> tuple[Part, ...]:
    words = ["cline", "auth", "-p", "openai-compatible", "-k", server.key, "-m", server.model]
    command = shlex.join([*words, "-b", server.base_url])
    fields = [
        "API Provider: OpenAI Compatible",
        f"Base URL: {server.base_url}",
        f"API Key: {server.key}",
        f"Model ID: {server.model}",
    ]
    if server.context_length is not None:
        fields.append(f"Model Configuration, Context Window Size: {server.context_length}")
    return (
        Block(intro="For the command line:", language="sh", text=command + "\n"),
        Block(intro="In an editor, in Cline's settings:", language="text", text=_lines(fields)),
    )


def qwen_code(server: Server) -> tuple[Part, ...]:
    model: dict[str, Any] = {"name": server.model}
    if server.context_length is not None:
        model["generationConfig"] = {"contextWindowSize": server.context_length}
    auth = {"selectedType": "openai", "apiKey": server.key, "baseUrl": server.base_url}
    settings = {"security": {"auth": auth}, "model": model}
    path = Path.home() / ".qwen" / "settings.json"
    return (SettingsFile(path=path, format="json", settings=settings),)


def aider(server: Server) -> tuple[Part, ...]:
    name = f"openai/{server.model}"
    settings = {
        "model": name,
        "openai-api-base": server.base_url,
        "openai-api-key": server.key,
    }
    home = Path.home()
    parts = [SettingsFile(path=home / ".aider.conf.yml", format="yaml", settings=settings)]
    if server.context_length is not None:
        # Without it aider warns that it doesn't know the model, and can't tell a full context.
        known = {
            "max_input_tokens": server.context_length,
            "input_cost_per_token": 0,
            "output_cost_per_token": 0,
            "litellm_provider": "openai",
            "mode": "chat",
        }
        path = home / ".aider.model.metadata.json"
        parts.append(SettingsFile(path=path, format="json", settings={name: known}))
    return tuple(parts)


def exports(variables: dict[str, str]) -> str:
    return _lines([f"export {name}={shlex.quote(value)}" for name, value in variables.items()])


def _lines(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _folder(variable: str, usual: Path) -> Path:
    """As the client itself looks for it."""
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else usual


CLIENTS = (
    Client("claude-code", "Claude Code", claude_code),
    Client("codex", "Codex CLI", codex),
    Client("opencode", "opencode", opencode),
    Client("cline", "Cline", cline),
    Client("qwen-code", "Qwen Code", qwen_code),
    Client("aider", "aider", aider),
)
