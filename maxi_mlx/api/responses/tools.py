"""Tools and the choice among them, from the Responses API's types to the core's functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from maxi_mlx.api.openai.json_schema import check_arguments_schema
from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.api.openai.schema import FunctionDefinition
from maxi_mlx.api.responses.names import CUSTOM_INPUT, WireName, prompt_name
from maxi_mlx.api.responses.schema import (
    InputFormat,
    ResponseBody,
    ToolChoiceSpec,
    ToolName,
    ToolSpec,
)
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Tool, ToolChoice

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_MODES = ("none", "auto", "required")

# OpenAI runs these, and nobody does here. Agents offer them with every request beside their own
# tools, and do without where they aren't used.
_DISPENSABLE = ("web_search", "tool_search")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseTools:
    """``names`` are the clients' names by the prompt's; ``shown`` are the tools in force, as the
    response repeats them."""

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    names: Mapping[str, WireName] = field(default_factory=dict)
    shown: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """A tool; ``path`` is where it stands in the request."""

    tool: Tool
    name: WireName
    path: str


def response_tools(body: ResponseBody, raw: Sequence[Mapping[str, Any]]) -> ResponseTools:
    """``raw`` are the tools as they were sent. Where the choice is "none" the model isn't told of
    them, but the response repeats them."""
    specs = body.tools or []
    found = list(_all(specs))
    own = [spec.type in (None, "function", "custom", "namespace") for spec in specs]
    for index, spec in enumerate(specs):
        if not own[index] and not (any(own) and _is_dispensable(spec)):
            raise _hosted(spec.type, f"tools[{index}].type")
    in_force = tuple(_repeated(tool) for tool, is_own in zip(raw, own, strict=True) if is_own)
    names = _names(found)
    mode, choice = _mode(body.tool_choice)
    if mode == "none":
        return ResponseTools(names=names, shown=in_force)
    return ResponseTools(
        tools=tuple(each.tool for each in found),
        choice=_choice(mode, choice, names=names),
        names=names,
        shown=in_force,
    )


def _is_dispensable(spec: ToolSpec) -> bool:
    return spec.type is not None and spec.type.startswith(_DISPENSABLE)


def _hosted(kind: str | None, path: str) -> InvalidRequest:
    return InvalidRequest(
        f"'{path}' is {shown(kind)!r}; this server runs no tools of its own. Send tools of type "
        "'function' or 'custom', which the client runs.",
        param=path,
    )


def _all(specs: Sequence[ToolSpec]) -> Iterator[_Found]:
    for index, spec in enumerate(specs):
        path = f"tools[{index}]"
        if spec.type == "namespace":
            if not spec.name:
                raise InvalidRequest(f"'{path}.name' is missing.", param=f"{path}.name")
            for place, inner in enumerate(spec.tools or ()):
                inner_path = f"{path}.tools[{place}]"
                if inner.type not in (None, "function", "custom"):
                    raise _hosted(inner.type, f"{inner_path}.type")
                yield _found(inner, inner_path, namespace=spec.name)
        elif spec.type in (None, "function", "custom"):
            yield _found(spec, path, namespace=None)


def _found(spec: ToolSpec, path: str, *, namespace: str | None) -> _Found:
    definition: FunctionDefinition = spec
    if spec.function is not None and spec.type != "custom":  # chat's shape
        definition, path = spec.function, f"{path}.function"
    if not definition.name:
        raise InvalidRequest(f"'{path}.name' is missing.", param=f"{path}.name")
    name = prompt_name(definition.name, namespace)
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"'{path}.name' must be letters, digits, underscores and dashes, with its namespace at "
            f"most 128, not {shown(name)!r}.",
            param=f"{path}.name",
        )
    is_custom = spec.type == "custom"
    wire = WireName(name=definition.name, namespace=namespace, is_custom=is_custom)
    if is_custom:
        return _Found(_custom(spec, name, path), wire, path)
    if definition.parameters is not None:
        check_arguments_schema(definition.parameters, f"{path}.parameters")
    tool = Tool(
        name=name,
        description=definition.description,
        parameters=definition.parameters,
        strict=definition.strict or False,
    )
    return _Found(tool, wire, path)


def _custom(spec: ToolSpec, name: str, path: str) -> Tool:
    """A tool of free text as a function of one text. A pattern is enforced; a grammar can't be
    inside a JSON string, so that the model is told of it."""
    description, pattern = spec.description, None
    form = spec.format or InputFormat(type="text")
    if form.type == "grammar":
        if not form.definition:
            raise InvalidRequest(
                f"'{path}.format.definition' is missing.", param=f"{path}.format.definition"
            )
        if form.syntax == "regex":
            pattern = f"^(?:{form.definition})$"
        else:
            grammar = f"The input has to follow this grammar:\n{form.definition}"
            description = "\n\n".join(filter(None, (description, grammar)))
    text: dict[str, Any] = {"type": "string", "description": "All of the tool's input, as text."}
    if pattern is not None:
        text["pattern"] = pattern
    parameters = {
        "type": "object",
        "properties": {CUSTOM_INPUT: text},
        "required": [CUSTOM_INPUT],
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, parameters=parameters, strict=True)


def _names(found: Sequence[_Found]) -> dict[str, WireName]:
    names: dict[str, WireName] = {}
    for each in found:
        if each.tool.name in names:
            raise InvalidRequest(
                f"'{each.path}.name' is {each.name.name!r}, as an earlier tool's is; names must "
                "differ.",
                param=f"{each.path}.name",
            )
        names[each.tool.name] = each.name
    return names


def _repeated(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A tool with the keys that OpenAI's schema wants."""
    kind = raw.get("type") or "function"
    if kind != "function":
        return {**raw, "type": kind}
    inner = raw.get("function")
    flat = {**raw, **inner} if isinstance(inner, dict) else dict(raw)
    flat.pop("function", None)
    keys = {"description": None, "parameters": None, "strict": False}
    given = {name: value for name, value in flat.items() if value is not None}
    return {**keys, **given, "type": "function"}


# -- the choice --------------------------------------------------------------------------------


def _mode(wanted: str | ToolChoiceSpec | None) -> tuple[str, ToolChoiceSpec | None]:
    if wanted is None:
        return "auto", None
    if isinstance(wanted, str):
        if wanted in _MODES:
            return wanted, None
    elif wanted.type in ("function", "custom", "allowed_tools"):
        return wanted.type, wanted
    elif wanted.type in _MODES:
        return wanted.type, None
    word = wanted if isinstance(wanted, str) else wanted.type
    param = "tool_choice" if isinstance(wanted, str) else "tool_choice.type"
    raise InvalidRequest(
        f"'{param}' must be 'none', 'auto', 'required', or an object of type 'function', 'custom' "
        f"or 'allowed_tools', not {shown(word)!r}.",
        param=param,
    )


def _choice(
    mode: str, wanted: ToolChoiceSpec | None, *, names: Mapping[str, WireName]
) -> ToolChoice:
    if mode == "auto":
        return ToolChoice()
    if not names:
        raise InvalidRequest(
            "'tool_choice' demands a tool call, but there are no 'tools' that the client runs.",
            param="tool_choice",
        )
    if wanted is None:
        return ToolChoice(mode="required")
    if mode != "allowed_tools":
        return ToolChoice(mode="required", names=(_chosen(wanted, "tool_choice", names=names),))
    if wanted.mode not in (None, "auto", "required"):
        raise InvalidRequest(
            f"'tool_choice.mode' must be 'auto' or 'required', not {shown(wanted.mode)!r}.",
            param="tool_choice.mode",
        )
    if not wanted.tools:
        raise InvalidRequest(
            "'tool_choice.tools' is empty; name a tool.", param="tool_choice.tools"
        )
    chosen = [
        _chosen(tool, f"tool_choice.tools[{index}]", names=names)
        for index, tool in enumerate(wanted.tools)
    ]
    how: Literal["auto", "required"] = "required" if wanted.mode == "required" else "auto"
    return ToolChoice(mode=how, names=tuple(dict.fromkeys(chosen)))


def _chosen(tool: ToolName, path: str, *, names: Mapping[str, WireName]) -> str:
    if tool.type not in (None, "function", "custom"):
        raise _hosted(tool.type, f"{path}.type")
    name = tool.function.name if tool.function is not None else tool.name
    if not name:
        raise InvalidRequest(f"'{path}.name' is missing.", param=f"{path}.name")
    known = prompt_name(name, tool.namespace)
    if known not in names:
        raise InvalidRequest(
            f"'{path}.name' is {shown(name)!r}, which is none of the 'tools'.",
            param=f"{path}.name",
        )
    return known
