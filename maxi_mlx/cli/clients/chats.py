"""Programs to chat with, in a window or at the command line."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from maxi_mlx.cli.clients.agents import exports
from maxi_mlx.cli.clients.guide import Block, Client, Part, Server, SettingsFile

LLM_KEY_NAME = "maxi-mlx"


def llm(server: Server) -> tuple[Part, ...]:
    model: dict[str, Any] = {
        "model_id": server.model,
        "model_name": server.model,
        "api_base": server.base_url,
        "supports_tools": server.takes_tools,
        "supports_schema": True,
    }
    key: tuple[Part, ...] = ()
    if server.api_key is not None:
        model["api_key_name"] = LLM_KEY_NAME
        command = shlex.join(["llm", "keys", "set", LLM_KEY_NAME, "--value", server.api_key])
        key = (Block(intro="Once:", language="sh", text=command + "\n"),)
    named = os.environ.get("LLM_USER_PATH")
    # llm itself asks click for its folder.
    folder = Path(named).expanduser() if named else Path(click.get_app_dir("io.datasette.llm"))
    file = SettingsFile(
        path=folder / "extra-openai-models.yaml",
        format="yaml",
        settings=[model],
        identity="model_id",
    )
    chat = f"llm -m {shlex.quote(server.model)} 'What is the capital of France?'\n"
    return (file, *key, Block(intro="Then:", language="sh", text=chat))


def open_webui(server: Server) -> tuple[Part, ...]:
    variables = {"OPENAI_API_BASE_URL": server.base_url, "OPENAI_API_KEY": server.key}
    steps = (
        "Settings > Admin > Connections > Manage OpenAI API Connections > +\n"
        f"URL: {server.base_url}\n"
        f"Key: {server.key}\n"
    )
    return (
        Block(
            intro="Before its first launch, from the environment:",
            language="sh",
            text=exports(variables) + "open-webui serve\n",
        ),
        Block(intro="Later, in its settings:", language="text", text=steps),
    )


def chatbox(server: Server) -> tuple[Part, ...]:
    steps = (
        "Settings > Model Provider > Add\n"
        "API Mode: OpenAI API Compatible\n"
        f"API Key: {server.key}\n"
        f"API Host: {server.url}\n"
        f"Models > New: {server.model}\n"
    )
    return (Block(intro="In Chatbox:", language="text", text=steps),)


CLIENTS = (
    Client("llm", "llm", llm),
    Client("open-webui", "Open WebUI", open_webui),
    Client("chatbox", "Chatbox", chatbox),
)
