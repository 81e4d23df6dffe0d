"""What an answer must be, as a constraint: calls where they are required, the form that a request
asks for, and a thought before either where the model thinks.

    required            thought? calls
    a form, and tools   thought? (calls | form)
    strict, or some     thought? text with calls that fit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import (
    Constraint,
    FreeText,
    InOrder,
    Node,
    OneOf,
    Repeated,
    Syntax,
)
from maxi_mlx.core.request import GenerateRequest, Tool
from maxi_mlx.engine.grammar.tool_calls import calls_in_text, required_calls
from maxi_mlx.text.reasoning import ReasoningFormat
from maxi_mlx.text.tool_calls import ToolSyntax

_ANY_ARGUMENTS = {"type": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """``ends_freely``: it ends in free text, so that it is never whole by itself.
    ``only_tagged``: calls are looked for at their tags alone, as the grammar knows no others.
    ``may_think``: a thought may come first; where not, nothing in the form is a thought's tag."""

    constraint: Constraint | None = None
    ends_freely: bool = False
    only_tagged: bool = False
    may_think: bool = True


def answer_form(
    request: GenerateRequest,
    syntax: ToolSyntax | None,
    reasoning: ReasoningFormat | None,
    *,
    thought_is_open: bool,
) -> AnswerForm:
    """Raises InvalidRequest for what the model can't be held to. ``thought_is_open``: the prompt
    ends inside a thought."""
    if syntax is None:
        form = AnswerForm(constraint=request.constraint)
    else:
        form = _with_tools(request, syntax, reasoning, thought_is_open=thought_is_open)
    if form.constraint is None or reasoning is None:
        return form
    constraint = form.constraint
    if reasoning.channels is not None:
        if syntax is None or not _has_call_messages(reasoning):
            constraint = replace(constraint, node=_said(constraint.node, reasoning))
        elif form.ends_freely:
            return form  # its messages are thoughts too
    if _is_kept_from_thinking(request) and not thought_is_open:
        # In free text, and before the header of a message, a thought's tag is one all the same.
        may_think = form.ends_freely or reasoning.channels is not None
        return replace(form, constraint=constraint, may_think=may_think)
    begin = None if thought_is_open else reasoning.begin
    constraint = replace(constraint, thought_begin=begin, thought_end=reasoning.end_in_form)
    return replace(form, constraint=constraint)


def _is_kept_from_thinking(request: GenerateRequest) -> bool:
    """Whether an answer that does not begin inside a thought must not begin one."""
    wanted = request.reasoning
    return wanted.enabled is False or wanted.budget_tokens == 0 or request.has_prefill


def _with_tools(
    request: GenerateRequest,
    syntax: ToolSyntax,
    reasoning: ReasoningFormat | None,
    *,
    thought_is_open: bool,
) -> AnswerForm:
    choice, asked = request.tool_choice, request.constraint
    tools = [tool for tool in request.tools if not choice.names or tool.name in choice.names]
    param = _held_by(request)
    if choice.mode != "required" and asked is None and param is None:
        return AnswerForm()
    is_parallel = request.parallel_tool_calls
    calls = required_calls(syntax.grammar_parts(tools, is_parallel=is_parallel))
    marked = _calls_anywhere(tools, syntax, is_parallel=is_parallel)
    if choice.mode == "required":
        constraint = Constraint(node=calls, param="tool_choice")
        return AnswerForm(constraint=constraint, only_tagged=marked is not None)
    if asked is not None:
        node = asked.node
        if reasoning is not None and _has_call_messages(reasoning):
            node = _said(node, reasoning)
        constraint = replace(asked, node=OneOf((calls, node)))
        return AnswerForm(constraint=constraint, only_tagged=marked is not None)
    assert param is not None
    if reasoning is not None and _has_call_messages(reasoning):
        shape = syntax.grammar_parts(_loose(tools, syntax), is_parallel=is_parallel)
        marked = _messages(required_calls(shape), reasoning, thought_is_open=thought_is_open)
    if marked is None:
        raise InvalidRequest(
            f"'{param}' can't be enforced beside free text: the calls of this model don't begin "
            "with a mark of their own. Leave it out, or send tool_choice 'required'.",
            param=param,
        )
    constraint = Constraint(node=marked, param=param)
    return AnswerForm(constraint=constraint, ends_freely=True, only_tagged=True)


def _held_by(request: GenerateRequest) -> str | None:
    """The field for which calls must be some that are known, where none are required."""
    if request.tool_choice.names:
        return "tool_choice"
    strict = (index for index, tool in enumerate(request.tools) if tool.strict)
    return next((f"tools[{index}].function.strict" for index in strict), None)


def _calls_anywhere(tools: Sequence[Tool], syntax: ToolSyntax, *, is_parallel: bool) -> Node | None:
    """Free text in which every call is one of the tools'; None where calls don't begin with a
    tag."""
    shape = syntax.grammar_parts(_loose(tools, syntax), is_parallel=is_parallel)
    begin = syntax.group_begin or next(iter(syntax.begin_tags), "")
    return calls_in_text(shape, begin, are_many=is_parallel) if begin else None


def _loose(tools: Sequence[Tool], syntax: ToolSyntax) -> list[Tool]:
    """The tools as they are held to where no call is required: those that aren't strict with
    whatever arguments, where that can be written."""
    return [
        replace(tool, parameters=_ANY_ARGUMENTS) if syntax.writes_json and not tool.strict else tool
        for tool in tools
    ]


# -- answers of several messages -------------------------------------------------------------------


def _has_call_messages(reasoning: ReasoningFormat) -> bool:
    """Whether a call is a message of its own, as a thought is."""
    return reasoning.channels is not None and bool(reasoning.channels.call_prefix)


def _said_header(reasoning: ReasoningFormat) -> str:
    """The header of a message that is said."""
    assert reasoning.channels is not None
    return reasoning.closing.rpartition(reasoning.channels.opening)[2].strip()


def _said(node: Node, reasoning: ReasoningFormat) -> Node:
    """A message that is said, with its header."""
    return InOrder((Syntax(_said_header(reasoning)), node))


def _messages(calls: Node, reasoning: ReasoningFormat, *, thought_is_open: bool) -> Node:
    """Thoughts and words before a call, if any, then calls, or the last word."""
    assert reasoning.channels is not None
    rest = FreeText(until=reasoning.end_in_form)
    headers = (reasoning.begin, *reasoning.channels.asides)
    before = Repeated(OneOf(tuple(InOrder((Syntax(header), rest)) for header in headers)))
    last = OneOf((calls, _said(FreeText(), reasoning)))
    return InOrder((rest, before, last) if thought_is_open else (before, last))
