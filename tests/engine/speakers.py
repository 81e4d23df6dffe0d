"""Tiny models that were taught nothing, each with the template and the tokens of a family, so that
its tool calls have to be in that family's syntax."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from maxi_mlx.core.request import Tool
from maxi_mlx.text.tool_calls.syntax import ToolSyntax
from tests.engine.grammar.schemas import random_schema
from tests.models import build_model, family_named
from tests.models.families import CHATML_TOKENS
from tests.models.templates import CHATML, CHATML_WITH_TOOLS

# What detection looks for in a template, where the syntax's own tags are not enough.
_TRACES = {
    "qwen3_coder": "<tool_call>\n<function=",
    "glm47": "<arg_key>",
    "minicpm5": '<function name=" <param name="',
    "mistral": "[TOOL_CALLS][ARGS]",
    "muse_spark": "<atem:function_calls>",
    "deepseek_v32": "<｜DSML｜",
    "harmony": "<|channel|>commentary to=functions.",
}
_MORE_TOKENS = {
    "harmony": ("<|start|>", "<|end|>", "<|return|>"),
    "kimi_k3": ("<|end_of_msg|>",),
}
_MORE_ENDS = {"harmony": ("<|call|>", "<|return|>")}
_TOKEN = re.compile(r"<[^<>\s=]+>|\[[A-Z_]+\]")
_NAMES = ("get_weather", "search-web", "a", "run_command", "set_Timer2")


def build_speaker(folder: Path, syntax: ToolSyntax, *, thinks: bool = False) -> Path:
    """A model whose calls have this syntax."""
    tokens = dict.fromkeys(token for tag in syntax.tags for token in _TOKEN.findall(tag))
    tokens.update(dict.fromkeys(_MORE_TOKENS.get(syntax.name, ())))
    if thinks:
        tokens.update(dict.fromkeys(("<think>", "</think>")))
    trace = _TRACES.get(syntax.name, " ".join(syntax.tags))
    plain = CHATML_WITH_TOOLS.replace("tool_call>", "past_call>").replace("think>", "past_thought>")
    family = replace(
        family_named("qwen3"),
        tokens=(*CHATML_TOKENS, *tokens),
        tags=(),
        ends=("<|im_end|>", *_MORE_ENDS.get(syntax.name, ())),
        template=f"{{#- {trace} -#}}{plain}",
    )
    return build_model(folder, family, max_position_embeddings=8192)


def build_deaf_speaker(folder: Path) -> Path:
    """A model whose template knows no tools."""
    family = replace(family_named("qwen2"), template=CHATML)
    return build_model(folder, family, max_position_embeddings=8192)


def random_tools(seed: int) -> tuple[Tool, ...]:
    """One to three, with arguments of the kinds that people describe, by names that can be written
    in any syntax."""
    chance = random.Random(seed)
    tools = []
    for name in chance.sample(_NAMES, chance.randint(1, 3)):
        parameters: Any = None
        while parameters is None or parameters.get("type") != "object":
            parameters = _plainly_named(random_schema(chance))
        tools.append(Tool(name=name, description="Does it.", parameters=parameters))
    return tuple(tools)


def accepted(tool: Tool) -> dict[str, Any]:
    """The schema that a call's arguments are validated against."""
    return dict(tool.parameters or {"type": "object", "additionalProperties": False})


def _plainly_named(schema: Any) -> Any:
    properties = schema.get("properties", {})
    names = {name: re.sub(r"\W", "_", name) for name in properties}
    changed = {names[name]: value for name, value in properties.items()}
    required = [names[name] for name in schema.get("required", ())]
    return {**schema, **({"properties": changed, "required": required} if properties else {})}
