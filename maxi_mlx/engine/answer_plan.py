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
from maxi_mlx.core.grammar import Constraint
from maxi_mlx.core.request import ChatPrompt, GenerateRequest
from maxi_mlx.engine.answer_form import answer_form
from maxi_mlx.engine.grammar.compiler import CompiledGrammar
from maxi_mlx.engine.grammar.tool_calls import required_calls
from maxi_mlx.engine.guide import GuideSpec, ThoughtLimit
from maxi_mlx.text.answer import AnswerText
from maxi_mlx.text.reasoning import ReasoningFormat, ReasoningSplitter
from maxi_mlx.text.stop_strings import StopStrings
from maxi_mlx.text.tool_calls import ToolCallReader, ToolSyntax

if TYPE_CHECKING:
    from maxi_mlx.engine.language_model import LanguageModel

Encode = Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlan:
    """For the answers to one prompt. ``reasoning`` is None where no thought can come, ``guide``
    where every token may."""

    request: GenerateRequest
    reasoning: ReasoningFormat | None
    thought_is_open: bool  # the prompt ends inside a thought
    syntax: ToolSyntax | None
    guide: GuideSpec | None

    @property
    def _grammar(self) -> CompiledGrammar | None:
        return self.guide.grammar if self.guide is not None else None

    @property
    def _has_form(self) -> bool:
        """Whether nothing in what is said can be a tag."""
        guide = self.guide
        return guide is not None and guide.grammar is not None and not guide.ends_freely

    def text(self, model: LanguageModel, *, choice: int) -> AnswerText:
        """The machine that turns one answer's tokens into events."""
        request, syntax, format = self.request, self.syntax, self.reasoning
        tags = (*(format.tags if format else ()), *(syntax.tags if syntax else ()))
        splitter = reader = None
        if format is not None:
            splitter = ReasoningSplitter(
                format,
                starts_open=self.thought_is_open,
                calls_begin=syntax.begin_tags if syntax else (),
                calls_end=syntax.end_tags if syntax else (),
                keeps_calls=syntax is not None,
                thought_first=self._grammar is not None and self._grammar.has_thought,
                has_form=self._has_form,
            )
        if syntax is not None:
            reader = ToolCallReader(syntax, request.tools, is_parallel=request.parallel_tool_calls)
        return AnswerText(
            model.vocabulary,
            StopStrings(request.stop),
            choice=choice,
            # What goes on from a beginning may well begin with a space.
            strip_first_space=request.is_chat and not request.has_prefill,
            splitter=splitter,
            reader=reader,
            tag_ids=model.vocabulary.special_ids_in(tags),
            has_only_calls=syntax is not None and request.tool_choice.mode == "required",
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
    form = answer_form(request, syntax, reasoning, thought_is_open=thought_is_open)
    if not form.may_think:
        reasoning = None
    if syntax is not None and form.only_tagged:
        syntax = replace(syntax, bare_reading=None)
    grammar = None
    if form.constraint is not None:
        grammar = _compiled(form.constraint, request, syntax, model)
    limit = None
    if reasoning is not None:
        limit = _thought_limit(
            request, model, reasoning, grammar, is_open=thought_is_open, encode=encode
        )
    guide = None
    if grammar is not None or limit is not None:
        guide = GuideSpec(grammar=grammar, ends_freely=form.ends_freely, thought_limit=limit)
    return AnswerPlan(
        request=request,
        reasoning=reasoning,
        thought_is_open=thought_is_open,
        syntax=syntax,
        guide=guide,
    )


def _compiled(
    constraint: Constraint,
    request: GenerateRequest,
    syntax: ToolSyntax | None,
    model: LanguageModel,
) -> CompiledGrammar:
    """Says of which tool it is what can't be enforced."""
    try:
        return model.grammars.compile(constraint)
    except InvalidRequest as error:
        for tool in request.tools if syntax is not None else ():
            assert syntax is not None
            try:
                call = required_calls(syntax.grammar_parts([tool], is_parallel=False))
                model.grammars.compile(Constraint(node=call, param=constraint.param))
            except InvalidRequest as its:
                if its.message == error.message:
                    error.message = f"In the parameters of the tool {tool.name!r}: {error.message}"
                    break
        raise


def _syntax(request: GenerateRequest, model: LanguageModel) -> ToolSyntax | None:
    prompt = request.prompts[0]
    if not request.tools or not isinstance(prompt, ChatPrompt):
        return None
    return model.habits.syntax_for(prompt)


def _thought_limit(
    request: GenerateRequest,
    model: LanguageModel,
    format: ReasoningFormat,
    grammar: CompiledGrammar | None,
    *,
    is_open: bool,
    encode: Encode,
) -> ThoughtLimit | None:
    num_tokens = request.reasoning.budget_tokens
    if num_tokens is None:
        return None
    is_tagged = format.channels is None
    closing = tuple(encode(format.closing if grammar is None or is_tagged else format.end_in_form))
    if max(closing) >= model.vocabulary_size:
        return None  # it has tags that it can't write
    return ThoughtLimit(
        num_tokens=num_tokens,
        begin=format.begin.encode(),
        end=format.end.encode(),
        num_end_tokens=len(encode(format.end)),
        closing=closing,
        starts_open=is_open,
        is_one=grammar is not None and (grammar.has_thought or is_tagged),
        data=model.vocabulary.data,
    )
