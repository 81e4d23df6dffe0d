"""Tools and the choice among them, from Anthropic's form to the core's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from maxi_mlx.api.anthropic.schema import CountBody, ToolChoiceItem, ToolItem
from maxi_mlx.api.openai.json_schema import check_arguments_schema
from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Tool, ToolChoice

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    parallel: bool = True


def tool_use(body: CountBody) -> ToolUse:
    """Where the choice is "none" the tools only say what may not be used, and are left out.

    Tools of Anthropic's are left out where there are others: agents that offer them beside their
    own go on working. Where they are all there is, an answer without them would be made up.
    """
    choice = body.tool_choice or ToolChoiceItem(type="auto")
    if choice.type == "none":
        return ToolUse()
    items = body.tools or []
    foreign = [item for item in items if _is_foreign(item)]
    if items and len(foreign) == len(items):
        raise _not_here(foreign[0], "tools[0].type")
    tools = _tools(items)
    return ToolUse(
        tools=tools,
        choice=_choice(choice, [tool.name for tool in tools], foreign),
        parallel=choice.disable_parallel_tool_use is not True,
    )


def _is_foreign(item: ToolItem) -> bool:
    return item.type not in (None, "custom")


def _not_here(item: ToolItem, param: str) -> InvalidRequest:
    return InvalidRequest(
        f"'{param}' asks for {shown(item.type)!r}, a tool of Anthropic's; this server runs none, "
        "and its models don't know it. Send tools of your own, with a name and an 'input_schema'.",
        param=param,
    )


def _tools(items: Sequence[ToolItem]) -> tuple[Tool, ...]:
    tools: dict[str, Tool] = {}
    for index, item in enumerate(items):
        if _is_foreign(item):
            continue
        path = f"tools[{index}]"
        tool = _tool(item, path)
        if tool.name in tools:
            raise InvalidRequest(
                f"'{path}.name' is {tool.name!r}, as an earlier tool's is; names must differ.",
                param=f"{path}.name",
            )
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(item: ToolItem, path: str) -> Tool:
    if not item.name:
        raise InvalidRequest(f"'{path}.name' is missing.", param=f"{path}.name")
    if not _NAME.fullmatch(item.name):
        raise InvalidRequest(
            f"'{path}.name' must be 1 to 128 letters, digits, underscores and dashes, not "
            f"{shown(item.name)!r}.",
            param=f"{path}.name",
        )
    if item.input_schema is None:
        raise InvalidRequest(f"'{path}.input_schema' is missing.", param=f"{path}.input_schema")
    check_arguments_schema(item.input_schema, f"{path}.input_schema")
    return Tool(
        name=item.name,
        description=item.description,
        parameters=item.input_schema,
        strict=item.strict or False,
    )


def _choice(
    choice: ToolChoiceItem, names: Sequence[str], foreign: Sequence[ToolItem]
) -> ToolChoice:
    match choice.type:
        case "auto":
            return ToolChoice()
        case "any" | "tool" if not names:
            raise InvalidRequest(
                "'tool_choice' demands a tool call, but there are no 'tools'.", param="tool_choice"
            )
        case "any":
            return ToolChoice(mode="required")
        case "tool":
            return ToolChoice(mode="required", names=(_known(choice.name, names, foreign),))
        case None:
            raise InvalidRequest("'tool_choice.type' is missing.", param="tool_choice.type")
        case unknown:
            raise InvalidRequest(
                f"'tool_choice.type' must be 'auto', 'any', 'tool' or 'none', not "
                f"{shown(unknown)!r}.",
                param="tool_choice.type",
            )


def _known(name: str | None, names: Sequence[str], foreign: Sequence[ToolItem]) -> str:
    if not name:
        raise InvalidRequest("'tool_choice.name' is missing.", param="tool_choice.name")
    for item in foreign:
        if item.name == name:
            raise _not_here(item, "tool_choice.name")
    if name not in names:
        raise InvalidRequest(
            f"'tool_choice.name' is {shown(name)!r}, which is none of the 'tools'.",
            param="tool_choice.name",
        )
    return name
