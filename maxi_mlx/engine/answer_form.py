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
from maxi_mlx.core.grammar import Constraint, InOrder, Node, OneOf, Syntax
from maxi_mlx.core.request import GenerateRequest, Tool
from maxi_mlx.engine.grammar.tool_calls import calls_in_text, required_calls
from maxi_mlx.text.reasoning import ReasoningFormat
from maxi_mlx.text.tool_calls import ToolSyntax

_ANY_ARGUMENTS = {"type": "object"}
_ASSISTANT = "<|start|>assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """``ends_freely``: it ends in free text, so that it is never whole by itself.
    ``only_tagged``: calls are looked for at their tags alone, as the grammar knows no others."""

    constraint: Constraint | None = None
    ends_freely: bool = False
    only_tagged: bool = False


def answer_form(
    request: GenerateRequest,
    syntax: ToolSyntax | None,
    reasoning: ReasoningFormat | None,
    *,
    thought_is_open: bool,
) -> AnswerForm:
    """Raises InvalidRequest for what the model can't be held to. ``thought_is_open``: the prompt
    ends inside a thought."""
    asked = request.constraint
    if syntax is None:
        if asked is None:
            return AnswerForm()
        return AnswerForm(constraint=_after_thought(asked, reasoning, is_open=thought_is_open))
    form = _with_tools(request, syntax, reasoning)
    if form.constraint is None or (form.ends_freely and _has_call_messages(reasoning)):
        return form  # of messages to functions, thoughts are other messages: free text to the form
    if _has_call_messages(reasoning):
        assert reasoning is not None
        end = reasoning.end + _ASSISTANT
        begin = None if thought_is_open else reasoning.begin
        constraint = replace(form.constraint, thought_end=end, thought_begin=begin)
    else:
        constraint = _after_thought(form.constraint, reasoning, is_open=thought_is_open)
    return replace(form, constraint=constraint)


def _with_tools(
    request: GenerateRequest, syntax: ToolSyntax, reasoning: ReasoningFormat | None
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
            node = InOrder((Syntax(_said_header(reasoning)), node))
        constraint = replace(asked, node=OneOf((calls, node)))
        return AnswerForm(constraint=constraint, only_tagged=marked is not None)
    assert param is not None
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
    """Free text in which every call is one of the tools', those that aren't strict with whatever
    arguments, where that can be written; None where calls don't begin with a tag."""
    if syntax.writes_json:
        tools = [
            tool if tool.strict else replace(tool, parameters=_ANY_ARGUMENTS) for tool in tools
        ]
    shape = syntax.grammar_parts(tools, is_parallel=is_parallel)
    begin = syntax.group_begin or next(iter(syntax.begin_tags), "")
    return calls_in_text(shape, begin) if begin else None


def _has_call_messages(reasoning: ReasoningFormat | None) -> bool:
    """Whether a call is a message of its own, as a thought is."""
    channels = reasoning.channels if reasoning is not None else None
    return channels is not None and bool(channels.call_prefix)


def _said_header(reasoning: ReasoningFormat) -> str:
    """The header of a message that is said."""
    return reasoning.closing.rpartition(_ASSISTANT)[2].strip()


def _after_thought(
    constraint: Constraint, reasoning: ReasoningFormat | None, *, is_open: bool
) -> Constraint:
    """The constraint begins where the thought has ended."""
    if reasoning is None:
        return constraint
    if reasoning.channels is not None:
        # Messages with headers: all before the header of what is said is free.
        return replace(constraint, thought_end=_said_header(reasoning))
    begin = None if is_open else reasoning.begin
    return replace(constraint, thought_end=reasoning.end, thought_begin=begin)
