"""Libraries: the variables that they read, or the lines of code where they read none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maxi_mlx.cli.clients.agents import exports
from maxi_mlx.cli.clients.guide import Block, Client, Part, Server, SettingsFile


def openai(server: Server) -> tuple[Part, ...]:
    variables = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": server.key}
    return (_variables(variables, model=server.model),)


def anthropic(server: Server) -> tuple[Part, ...]:
    variables = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.key}
    return (_variables(variables, model=server.model),)


def ollama(server: Server) -> tuple[Part, ...]:
    variables = {"OLLAMA_HOST": server.url}
    if server.api_key is not None:
        variables["OLLAMA_API_KEY"] = server.api_key
    return (_variables(variables, model=server.model),)


def litellm(server: Server) -> tuple[Part, ...]:
    variables = {"OPENAI_API_BASE": server.base_url, "OPENAI_API_KEY": server.key}
    return (_variables(variables, model=f"openai/{server.model}"),)


def langchain(server: Server) -> tuple[Part, ...]:
    text = f"""\
from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model={_quoted(server.model)},
    base_url={_quoted(server.base_url)},
    api_key={_quoted(server.key)},
)
print(model.invoke("What is the capital of France?").content)
"""
    return (Block(intro="In Python, with langchain-openai:", language="python", text=text),)


def llamaindex(server: Server) -> tuple[Part, ...]:
    context = f"    context_window={server.context_length},\n" if server.context_length else ""
    text = f"""\
from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(
    model={_quoted(server.model)},
    api_base={_quoted(server.base_url)},
    api_key={_quoted(server.key)},
    is_chat_model=True,
    is_function_calling_model={server.takes_tools},
{context})
print(model.complete("What is the capital of France?"))
"""
    intro = "In Python, with llama-index-llms-openai-like:"
    return (Block(intro=intro, language="python", text=text),)


def promptfoo(server: Server) -> tuple[Part, ...]:
    provider: dict[str, Any] = {
        "id": f"openai:chat:{server.model}",
        "config": {"apiBaseUrl": server.base_url, "apiKey": server.key},
    }
    file = SettingsFile(
        path=Path.cwd() / "promptfooconfig.yaml",
        format="yaml",
        settings={"providers": [provider]},
        identity="id",
    )
    return (file,)


def _variables(variables: dict[str, str], *, model: str) -> Block:
    intro = f"The model is {model}. In the environment of the program:"
    return Block(intro=intro, language="sh", text=exports(variables))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


CLIENTS = (
    Client("openai", "OpenAI's SDKs", openai),
    Client("anthropic", "Anthropic's SDKs", anthropic),
    Client("ollama", "Ollama's libraries", ollama),
    Client("litellm", "LiteLLM", litellm),
    Client("langchain", "LangChain", langchain),
    Client("llamaindex", "LlamaIndex", llamaindex),
    Client("promptfoo", "promptfoo", promptfoo),
)
