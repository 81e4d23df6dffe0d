"""What a template can do, found by trying it on short conversations with words to look for.

A pure function of the template, at load: some two dozen renderings of a few milliseconds in all. A
template that fails a trial, or leaves its words out, can't.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

from maxi_mlx.core.request import Message, Tool, ToolCall
from maxi_mlx.text.chat_template.forms import (
    Arguments,
    EmptyContent,
    Form,
    template_messages,
    template_tools,
    tool_variables,
)
from maxi_mlx.text.chat_template.limits import Limits, working
from maxi_mlx.text.chat_template.template import RenderFailed, Template

_USER = Message(role="user", text="zqask1")
_MORE = Message(role="user", text="zqask2")
_ANSWER = Message(role="assistant", text="zqanswer1")
_SYSTEM = Message(role="system", text="zqsystem1")
_LATER = Message(role="system", text="zqsystem2")
_TOOL = Tool(
    name="zqtool",
    description="zqdescription",
    parameters={
        "type": "object",
        "properties": {"zqname": {"type": "string", "description": "zqmeaning"}},
        "required": ["zqname"],
    },
)
_CALLS = (
    ToolCall("call_zq1", "zqtool", '{"zqname": "zqvalue1"}'),
    ToolCall("call_zq2", "zqtool", '{"zqname": "zqvalue2"}'),
)
_RESULTS = tuple(
    Message(role="tool", text=f"zqresult{number}", tool_call_id=f"call_zq{number}")
    for number in (1, 2)
)
# A dictionary as Python prints it, or a string in a string: the call came in the wrong form.
_WRONG_ARGUMENTS = re.compile(r"""'zqname'|\\"zqname""")
_ARGUMENTS: tuple[Arguments, ...] = ("object", "text")
_EMPTY: tuple[EmptyContent, ...] = ("text", "null", "absent")
# For all trials: others' answers may wait for the load.
_LIMITS = Limits(time_s=2.0)
_SWITCHES = ("enable_thinking", "thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """``calls`` are those of earlier turns, ``parallel_calls`` several in one turn, ``results``
    what tools answered. ``thinking_switch`` is the template's name for whether to think;
    ``reasoning_effort`` says whether it knows a scale."""

    system: bool = True
    later_system: bool = True
    repeated_turns: bool = True
    tools: bool = False
    calls: bool = False
    parallel_calls: bool = False
    results: bool = False
    past_reasoning: bool = False
    thinking_switch: str | None = None
    reasoning_effort: bool = False
    form: Form = field(default_factory=Form)


def find_abilities(template: Template) -> Abilities:
    """Raises nothing: a template that takes not even a plain question can do nothing else."""
    with working(_LIMITS):
        return _found(template)


def _found(template: Template) -> Abilities:
    trial = _Trial(template)
    form = _content_form(trial)
    form, tools = _tools(trial, form)
    given = (_TOOL,) if tools else ()
    form, calls = _calls(trial, form, tools=given)
    if trial.shows([_USER], "zqask1", form=form):
        given_to_talk: tuple[Tool, ...] = ()
    else:
        given_to_talk = given  # a template that is only for conversations with tools
    talk = partial(trial.shows, form=form, tools=given_to_talk)
    return Abilities(
        system=talk([_SYSTEM, _USER], "zqsystem1", "zqask1"),
        later_system=talk([_SYSTEM, _USER, _ANSWER, _LATER, _MORE], "zqsystem1", "zqsystem2"),
        repeated_turns=talk([_USER, _MORE], "zqask1", "zqask2"),
        tools=tools,
        calls=calls,
        parallel_calls=calls
        and trial.shows(
            [_USER, _calling(*_CALLS), *_RESULTS],
            *("zqvalue1", "zqvalue2", "zqresult1", "zqresult2"),
            form=form,
            tools=given,
        ),
        results=calls
        or trial.shows([_USER, _ANSWER, _RESULTS[0]], "zqresult1", form=form, tools=given),
        past_reasoning=_shows_reasoning(trial, form, tools=given, calls=calls),
        thinking_switch=next((name for name in _SWITCHES if name in template.variables), None),
        reasoning_effort="reasoning_effort" in template.variables,
        form=form,
    )


class _Trial:
    def __init__(self, template: Template) -> None:
        self._template = template
        self._is_over = False  # one that took too long once isn't tried again

    def text(self, messages: Sequence[Message], *, form: Form, tools: Sequence[Tool] = ()) -> str:
        """The rendering; empty where it fails."""
        if self._is_over:
            return ""
        try:
            return self._template.render(
                template_messages(messages, form),
                tools=template_tools(tools, form),
                variables=tool_variables(tools, form),
            )
        except RenderFailed as error:
            self._is_over = error.is_limit
            return ""

    def shows(
        self, messages: Sequence[Message], *words: str, form: Form, tools: Sequence[Tool] = ()
    ) -> bool:
        """Whether all words are in the rendering, in their order."""
        text = self.text(messages, form=form, tools=tools)
        place = 0
        for word in words:
            place = text.find(word, place)
            if place < 0:
                return False
        return True


def _content_form(trial: _Trial) -> Form:
    for form in (Form(), Form(content="parts")):
        text = trial.text([_USER], form=form)
        # Parts that a template only prints are Python's words for a list.
        if "zqask1" in text and "'zqask1'" not in text:
            return form
    return Form()


def _tools(trial: _Trial, form: Form) -> tuple[Form, bool]:
    """Whether tools are shown; under which name they are, and must each have a description. Some
    templates want a system message too."""
    for name, conversation in product(("tools", "xml_tools"), ([_USER], [_SYSTEM, _USER])):
        named = replace(form, tools_name=name)
        if trial.shows(conversation, "zqtool", form=named, tools=[_TOOL]):
            plain = [replace(_TOOL, description=None)]
            described = trial.shows(conversation, "zqtool", form=named, tools=plain)
            return replace(named, describes_all=not described), True
    return form, False


def _calls(trial: _Trial, form: Form, *, tools: Sequence[Tool]) -> tuple[Form, bool]:
    """The first form in which a call and its result are shown as they were."""
    for candidate in _forms(form):
        text = trial.text([_USER, _calling(_CALLS[0]), _RESULTS[0]], form=candidate, tools=tools)
        after = text.rpartition("zqask1")[2]
        if _WRONG_ARGUMENTS.search(after):
            continue
        if all(word in after for word in ("zqtool", "zqvalue1", "zqresult1")):
            return candidate, True
    return form, False


def _forms(form: Form) -> Iterator[Form]:
    # What is tried first is what most templates want.
    for short_ids, arguments, empty in product((False, True), _ARGUMENTS, _EMPTY):
        yield replace(form, short_ids=short_ids, arguments=arguments, empty_content=empty)


def _calling(*calls: ToolCall) -> Message:
    return Message(role="assistant", text=None, tool_calls=calls)


def _shows_reasoning(trial: _Trial, form: Form, *, tools: Sequence[Tool], calls: bool) -> bool:
    """Within a turn with calls, where most templates keep thoughts, or in an earlier one."""
    if calls:
        turn = replace(_calling(_CALLS[0]), reasoning="zqthought")
        if trial.shows([_USER, turn, _RESULTS[0]], "zqthought", form=form, tools=tools):
            return True
    earlier = replace(_ANSWER, reasoning="zqthought")
    return trial.shows([_USER, earlier, _MORE], "zqthought", form=form)
