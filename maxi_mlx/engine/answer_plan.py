"""What a request makes of an answer: how its thoughts and calls are read, and what it must be.

    tools, tool_choice, response_format, thinking budget ─► machines for the text, a guide for the
    tokens

Runs on worker threads, since grammars are compiled here; holds nothing of MLX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import Constraint, Node, OneOf
from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Tool
from maxi_mlx.engine.grammar.tool_calls import calls_in_text, required_calls
from maxi_mlx.engine.guide import GuideSpec, ThoughtLimit
from maxi_mlx.text.answer import AnswerText
from maxi_mlx.text.reasoning import ReasoningFormat, ReasoningSplitter
from maxi_mlx.text.stop_strings import StopStrings
from maxi_mlx.text.tool_calls import ToolCallReader, ToolSyntax

if TYPE_CHECKING:
    from maxi_mlx.engine.language_model import LanguageModel

_ANY_ARGUMENTS = {"type": "object"}
_ASSISTANT = "<|start|>assistant"

Encode = Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlan:
    """For the answers to one prompt. ``guide`` is None where every token may come."""

    request: GenerateRequest
    reasoning: ReasoningFormat | None
    thought_is_open: bool  # the prompt ends inside a thought
    syntax: ToolSyntax | None
    guide: GuideSpec | None

    def text(self, model: LanguageModel, *, choice: int) -> AnswerText:
        """The machine that turns one answer's tokens into events."""
        request, syntax, format = self.request, self.syntax, self.reasoning
        tags = (*(format.tags if format else ()), *(syntax.tags if syntax else ()))
        splitter = reader = None
        if format is not None:
            splitter = ReasoningSplitter(
                format,
                starts_open=self.thought_is_open,
                calls_begin=syntax.begin_tags if syntax is not None else (),
                keeps_calls=syntax is not None,
            )
        if syntax is not None:
            reader = ToolCallReader(syntax, request.tools, is_parallel=request.parallel_tool_calls)
        return AnswerText(
            model.vocabulary,
            StopStrings(request.stop),
            choice=choice,
            strip_first_space=request.is_chat,
            splitter=splitter,
            reader=reader,
            tag_ids=model.vocabulary.special_ids_in(tags),
        )


def plan_answers(
    request: GenerateRequest,
    model: LanguageModel,
    *,
    thought_is_open: bool,
    encode: Encode,
) -> AnswerPlan:
    """Raises InvalidRequest for what the model can't be held to."""
    reasoning = model.habits.reasoning if request.is_chat else None
    syntax = _syntax(request, model)
    constraint = _constraint(request, syntax)
    if constraint is not None and reasoning is not None:
        constraint = _after_thought(constraint, reasoning, is_open=thought_is_open)
    grammar = None if constraint is None else model.grammars.compile(constraint)
    limit = _thought_limit(request, reasoning, is_open=thought_is_open, encode=encode)
    guide = None
    if grammar is not None or limit is not None:
        guide = GuideSpec(grammar=grammar, thought_limit=limit)
    return AnswerPlan(
        request=request,
        reasoning=reasoning,
        thought_is_open=thought_is_open,
        syntax=syntax,
        guide=guide,
    )


def _syntax(request: GenerateRequest, model: LanguageModel) -> ToolSyntax | None:
    prompt = request.prompts[0]
    if not request.tools or not isinstance(prompt, ChatPrompt):
        return None
    return model.habits.syntax_for(prompt)


def _constraint(request: GenerateRequest, syntax: ToolSyntax | None) -> Constraint | None:
    """What the answer's text must be: calls, where they are required; else what the request says,
    or calls in its place; else free text whose strict calls fit their schemas."""
    asked = request.constraint
    if syntax is None:
        return asked
    tools = _allowed_tools(request)
    shape = syntax.grammar_parts(tools, is_parallel=request.parallel_tool_calls)
    if request.tool_choice.mode == "required":
        return Constraint(node=required_calls(shape), param="tool_choice")
    if asked is not None:
        return replace(asked, node=OneOf((required_calls(shape), asked.node)))
    strict = [index for index, tool in enumerate(request.tools) if tool.strict]
    if not strict:
        return None
    node = _calls_anywhere(tools, syntax, is_parallel=request.parallel_tool_calls)
    param = f"tools[{strict[0]}].function.strict"
    if node is None:
        raise InvalidRequest(
            f"'{param}': the calls of this model don't begin with a mark of their own, so that "
            "'strict' can't be enforced beside free text. Leave it out, or send tool_choice "
            "'required'.",
            param=param,
        )
    return Constraint(node=node, param=param)


def _allowed_tools(request: GenerateRequest) -> list[Tool]:
    names = request.tool_choice.names
    return [tool for tool in request.tools if not names or tool.name in names]


def _calls_anywhere(tools: Sequence[Tool], syntax: ToolSyntax, *, is_parallel: bool) -> Node | None:
    """Free text in which every call is one of the tools', those that aren't strict with whatever
    arguments."""
    free = [tool if tool.strict else replace(tool, parameters=_ANY_ARGUMENTS) for tool in tools]
    shape = syntax.grammar_parts(free, is_parallel=is_parallel)
    begin = syntax.group_begin or next(iter(syntax.begin_tags), "")
    return calls_in_text(shape, begin) if begin else None


def _after_thought(constraint: Constraint, format: ReasoningFormat, *, is_open: bool) -> Constraint:
    """The constraint begins where the thought has ended."""
    if format.channels is not None:
        # Messages with headers: all before the header of what is said is free.
        header = format.closing.rpartition(_ASSISTANT)[2].strip()
        return replace(constraint, thought_end=header)
    begin = None if is_open else format.begin
    return replace(constraint, thought_end=format.end, thought_begin=begin)


def _thought_limit(
    request: GenerateRequest,
    format: ReasoningFormat | None,
    *,
    is_open: bool,
    encode: Encode,
) -> ThoughtLimit | None:
    num_tokens = request.reasoning.budget_tokens
    if num_tokens is None or format is None:
        return None  # a model that doesn't think aloud keeps to any budget
    begin, end, closing = (
        tuple(encode(text)) for text in (format.begin, format.end, format.closing)
    )
    return ThoughtLimit(
        num_tokens=num_tokens, begin=begin, end=end, closing=closing, starts_open=is_open
    )
