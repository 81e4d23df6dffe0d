"""Tools and the choice among them, from the wire's three forms to the core's one.

The forms: chat's ``tools``, its older ``functions``, and the Responses API's flat tools, which some
clients send to chat.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from maxi_mlx.api.openai.json_schema import check_arguments_schema
from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.api.openai.schema import (
    AllowedTools,
    ChatBody,
    ChosenTool,
    FunctionDefinition,
    NamedFunction,
    ToolChoiceItem,
    ToolItem,
)
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Tool, ToolChoice

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_MODES = ("none", "auto", "required")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """``is_legacy``: asked for as ``functions``, and so answered as ``function_call``."""

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    parallel: bool = True
    is_legacy: bool = False


def tool_use(body: ChatBody) -> ToolUse:
    """Where the choice is "none" the tools only say what may not be used, and are left out."""
    if body.functions and body.tools:
        raise InvalidRequest(
            "'functions' is the older name of 'tools'; send one of them.", param="functions"
        )
    if body.tools and body.function_call not in (None, "auto"):
        raise InvalidRequest(
            "'function_call' goes with 'functions'; beside 'tools' send 'tool_choice'.",
            param="function_call",
        )
    if body.functions or body.function_call not in (None, "none", "auto"):
        return _functions(body)
    mode, choice = _mode(body.tool_choice, "tool_choice")
    if mode == "none":
        return ToolUse()
    tools = _tools(body.tools or ())
    found = _choice(mode, choice, names=[tool.name for tool in tools])
    if not tools:
        return ToolUse()
    return ToolUse(tools=tools, choice=found, parallel=body.parallel_tool_calls is not False)


def _functions(body: ChatBody) -> ToolUse:
    wanted = body.function_call
    if body.tool_choice not in (None, "auto"):
        raise InvalidRequest(
            "'tool_choice' goes with 'tools'; beside 'functions' send 'function_call'.",
            param="tool_choice",
        )
    if wanted == "none":
        return ToolUse()
    tools = tuple(
        _tool(function, f"functions[{index}]")
        for index, function in enumerate(body.functions or ())
    )
    _check_unique(tools, "functions[{}]")
    choice = ToolChoice()
    if isinstance(wanted, NamedFunction):
        if not tools:
            raise InvalidRequest(
                "'function_call' demands a call, but there are no 'functions'.",
                param="function_call",
            )
        names = [tool.name for tool in tools]
        name = _known(wanted.name, "function_call", names=names, tools="functions")
        choice = ToolChoice(mode="required", names=(name,))
    elif wanted not in (None, "auto"):
        raise InvalidRequest(
            f"'function_call' must be 'none', 'auto' or an object with a name, not "
            f"{shown(wanted)!r}.",
            param="function_call",
        )
    # The answer has room for one call.
    return ToolUse(tools=tools, choice=choice, parallel=False, is_legacy=True)


# -- the tools ---------------------------------------------------------------------------------


def _tools(items: Sequence[ToolItem]) -> tuple[Tool, ...]:
    tools = tuple(_tool_item(item, f"tools[{index}]") for index, item in enumerate(items))
    _check_unique(tools, "tools[{}].function")
    return tools


def _tool_item(item: ToolItem, path: str) -> Tool:
    if item.type not in (None, "function"):
        raise InvalidRequest(
            f"'{path}.type' is {shown(item.type)!r}; this server has no tools of its own, and runs "
            "none. Send tools of type 'function', which the client runs.",
            param=f"{path}.type",
        )
    if item.function is not None:
        return _tool(item.function, f"{path}.function")
    if item.name is None:
        raise InvalidRequest(f"'{path}.function' is missing.", param=f"{path}.function")
    return _tool(item, path)


def _tool(function: FunctionDefinition, path: str) -> Tool:
    if not function.name:
        raise InvalidRequest(f"'{path}.name' is missing.", param=f"{path}.name")
    if not _NAME.fullmatch(function.name):
        raise InvalidRequest(
            f"'{path}.name' must be 1 to 64 letters, digits, underscores and dashes, not "
            f"{shown(function.name)!r}.",
            param=f"{path}.name",
        )
    if function.parameters is not None:
        check_arguments_schema(function.parameters, f"{path}.parameters")
    return Tool(
        name=function.name,
        description=function.description,
        parameters=function.parameters,
        strict=function.strict or False,
    )


def _check_unique(tools: Sequence[Tool], place: str) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in seen:
            path = place.format(index)
            raise InvalidRequest(
                f"'{path}.name' is {tool.name!r}, as an earlier tool's is; names must differ.",
                param=f"{path}.name",
            )
        seen.add(tool.name)


# -- the choice --------------------------------------------------------------------------------


def _mode(wanted: str | ToolChoiceItem | None, param: str) -> tuple[str, ToolChoiceItem | None]:
    """The choice's word, and the rest of it where it is an object."""
    if wanted is None:
        return "auto", None
    word = wanted if isinstance(wanted, str) else wanted.type
    item = None if isinstance(wanted, str) else wanted
    if word == "any":  # Mistral's word
        word = "required"
    if word in _MODES:
        return word, None
    if item is not None and word in ("function", "allowed_tools"):
        return word, item
    if item is not None and word is None and item.function is not None:
        return "function", item
    raise InvalidRequest(
        f"'{param}' must be 'none', 'auto', 'required', or an object of type 'function' or "
        f"'allowed_tools', not {shown(word)!r}.",
        param=param if isinstance(wanted, str) else f"{param}.type",
    )


def _choice(mode: str, item: ToolChoiceItem | None, *, names: Sequence[str]) -> ToolChoice:
    if mode == "auto":
        return ToolChoice()
    if not names:
        raise InvalidRequest(
            "'tool_choice' demands a tool call, but there are no 'tools'.", param="tool_choice"
        )
    if item is None:
        return ToolChoice(mode="required")
    if mode == "function":
        return ToolChoice(mode="required", names=(_chosen(item, "tool_choice", names=names),))
    if item.allowed_tools is not None:
        return _allowed(item.allowed_tools, "tool_choice.allowed_tools", names=names)
    return _allowed(AllowedTools(mode=item.mode, tools=item.tools), "tool_choice", names=names)


def _allowed(allowed: AllowedTools, path: str, *, names: Sequence[str]) -> ToolChoice:
    if allowed.mode not in (None, "auto", "required"):
        raise InvalidRequest(
            f"'{path}.mode' must be 'auto' or 'required', not {shown(allowed.mode)!r}.",
            param=f"{path}.mode",
        )
    if not allowed.tools:
        raise InvalidRequest(f"'{path}.tools' is empty; name a tool.", param=f"{path}.tools")
    chosen = [
        _chosen(tool, f"{path}.tools[{index}]", names=names)
        for index, tool in enumerate(allowed.tools)
    ]
    mode: Literal["auto", "required"] = "required" if allowed.mode == "required" else "auto"
    return ToolChoice(mode=mode, names=tuple(dict.fromkeys(chosen)))


def _chosen(tool: ChosenTool, path: str, *, names: Collection[str]) -> str:
    if tool.type not in (None, "function", "allowed_tools"):
        raise InvalidRequest(
            f"'{path}.type' is {shown(tool.type)!r}; only tools of type 'function' can be called.",
            param=f"{path}.type",
        )
    if tool.function is not None:
        return _known(tool.function.name, f"{path}.function", names=names, tools="tools")
    return _known(tool.name, path, names=names, tools="tools")


def _known(name: str | None, path: str, *, names: Collection[str], tools: str) -> str:
    if not name:
        raise InvalidRequest(f"'{path}.name' is missing.", param=f"{path}.name")
    if name not in names:
        raise InvalidRequest(
            f"'{path}.name' is {shown(name)!r}, which is none of the '{tools}'.",
            param=f"{path}.name",
        )
    return name
