"""Editors and their extensions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from maxi_mlx.cli.clients.guide import Block, Client, Part, Server, SettingsFile

PROVIDER = "maxi-mlx"
# Zed wants a number. So many tokens nearly every model has.
UNKNOWN_CONTEXT = 8192


def continue_(server: Server) -> tuple[Part, ...]:
    model: dict[str, Any] = {
        "name": server.model,
        "provider": "openai",
        "model": server.model,
        "apiBase": server.base_url,
        "apiKey": server.key,
        "roles": ["chat", "edit", "apply"],
    }
    if server.takes_tools:
        model["capabilities"] = ["tool_use"]
    if server.context_length is not None:
        model["defaultCompletionOptions"] = {"contextLength": server.context_length}
    named = os.environ.get("CONTINUE_GLOBAL_DIR")
    folder = Path(named).expanduser() if named else Path.home() / ".continue"
    file = SettingsFile(
        path=folder / "config.yaml",
        format="yaml",
        settings={"models": [model]},
        defaults={"name": "Local", "version": "0.0.1", "schema": "v1"},
        identity="name",
    )
    return (file,)


def zed(server: Server) -> tuple[Part, ...]:
    model = {
        "name": server.model,
        "display_name": server.model,
        "max_tokens": server.context_length or UNKNOWN_CONTEXT,
        "capabilities": {
            "tools": server.takes_tools,
            "images": server.sees,
            "parallel_tool_calls": server.takes_tools,
            "prompt_cache_key": False,
        },
    }
    provider = {"api_url": server.base_url, "available_models": [model]}
    settings = {
        "language_models": {"openai_compatible": {PROVIDER: provider}},
        "agent": {"default_model": {"provider": PROVIDER, "model": server.model}},
    }
    named = os.environ.get("XDG_CONFIG_HOME")
    # On a Mac, too, it is the home's .config.
    folder = Path(named).expanduser() if named else Path.home() / ".config"
    key = (
        f"In the Agent panel's settings, under LLM Providers, {PROVIDER}: API key {server.key}\n"
        "(Zed keeps keys in the system's keychain, and wants one.)\n"
    )
    return (
        SettingsFile(
            path=folder / "zed" / "settings.json",
            format="json",
            settings=settings,
            identity="name",
        ),
        Block(intro="Then:", language="text", text=key),
    )


def cursor(server: Server) -> tuple[Part, ...]:
    key = server.api_key or "the server's key"
    steps = (
        "1. Start the server with an API key, and a tunnel of your choice that leads to it from\n"
        "   an https address, as Cursor's own servers make the requests. Have the tunnel send\n"
        "   `Host: localhost`, or start the server with `--cors https://YOUR-TUNNEL` as well.\n"
        f"2. Cursor Settings > Models > API Keys > OpenAI API Key: {key}\n"
        "   Override OpenAI Base URL: https://YOUR-TUNNEL/v1\n"
        f"3. Cursor Settings > Models, add: {server.model}\n"
    )
    return (Block(intro="In Cursor:", language="text", text=steps),)


CLIENTS = (
    Client("continue", "Continue", continue_),
    Client("cursor", "Cursor", cursor),
    Client("zed", "Zed", zed),
)
