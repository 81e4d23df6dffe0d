"""A model's chat templates as one thing: messages and tools in, the prompt's text out.

What a template can't take is made over for it, as far as its abilities tell; what it then still
refuses is an `InvalidRequest` with its own words, its line, and the message that tripped it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import ChatPrompt, Message, Tool
from maxi_mlx.text.chat_template.abilities import Abilities, find_abilities
from maxi_mlx.text.chat_template.arrangement import (
    Arrangement,
    calls_as_text,
    fold_system,
    merge_turns,
    split_calls,
    system_in_front,
    with_system,
)
from maxi_mlx.text.chat_template.files import DEFAULT, TOOL_USE, chat_templates, special_tokens
from maxi_mlx.text.chat_template.forms import (
    Form,
    template_messages,
    template_tools,
    tool_variables,
)
from maxi_mlx.text.chat_template.template import JinjaTemplate, RenderFailed, Template
from maxi_mlx.text.tool_calls.prompt import generic_tool_prompt

ToolPrompt = Callable[[Sequence[Tool]], str]


class ChatTemplates:
    """Safe from any thread: nothing in it changes."""

    def __init__(
        self,
        templates: Mapping[str, Template],
        *,
        model_name: str,
        tool_prompt: ToolPrompt = generic_tool_prompt,
        system: str | None = None,
    ) -> None:
        """``tool_prompt`` tells a model of tools in words, for templates that know none;
        ``system`` is the system prompt of conversations that have none."""
        self._templates = dict(templates)
        self._model_name = model_name
        self._tool_prompt = tool_prompt
        self._system = system
        self._abilities = {name: find_abilities(each) for name, each in templates.items()}

    @classmethod
    def from_files(
        cls,
        files: Mapping[str, str],
        *,
        model_name: str,
        tool_prompt: ToolPrompt = generic_tool_prompt,
        system: str | None = None,
    ) -> ChatTemplates:
        """From what `read_template_files` read. Raises `InvalidRequest` where a template has a
        syntax error."""
        tokens = special_tokens(files)
        templates: dict[str, Template] = {
            name: JinjaTemplate(
                text,
                name="chat template" if name == DEFAULT else f"chat template {name!r}",
                special_tokens=tokens,
            )
            for name, text in chat_templates(files).items()
        }
        return cls(templates, model_name=model_name, tool_prompt=tool_prompt, system=system)

    def __bool__(self) -> bool:
        """A base model has none."""
        return bool(self._templates)

    def _name(self, *, with_tools: bool) -> str:
        """The template that transformers would take."""
        if with_tools and TOOL_USE in self._templates:
            return TOOL_USE
        return DEFAULT if DEFAULT in self._templates else next(iter(self._templates))

    def abilities(self, *, with_tools: bool = False) -> Abilities:
        """Of the template for conversations with tools, or without. There must be one."""
        return self._abilities[self._name(with_tools=with_tools)]

    def uses_generic_tools(self, prompt: ChatPrompt) -> bool:
        """Whether the tools are told in words, and calls come in the form that those ask for."""
        return bool(prompt.tools) and not self.abilities(with_tools=True).tools

    def render(self, prompt: ChatPrompt, *, image_text: str | None = None) -> str:
        """``image_text`` is what the model's own template writes for an image; it comes once for
        each, unless the messages have it as text, or the template leaves images out."""
        if not self._templates:
            raise InvalidRequest(
                f"{self._model_name} has no chat template: it is a base model. Use "
                "/v1/completions, or an instruct model.",
                param="model",
            )
        name = self._name(with_tools=bool(prompt.tools))
        template, abilities = self._templates[name], self._abilities[name]
        problem: RenderFailed | None = None
        done: list[list[Message]] = []
        for arranged in _arrangements(abilities):
            messages = self._arranged(prompt, abilities, arranged)
            if messages in done:
                continue
            done.append(messages)
            try:
                return _rendered(template, messages, prompt, abilities, image_text)
            except RenderFailed as error:
                problem = problem or error
                if error.is_limit:
                    raise self._refusal(error, None) from None
        assert problem is not None
        raise self._refusal(problem, self._culprit(template, prompt, abilities, problem))

    def _arranged(
        self, prompt: ChatPrompt, abilities: Abilities, arranged: Arrangement
    ) -> list[Message]:
        messages: list[Message] = list(prompt.messages)
        if self._system is not None and all(message.role != "system" for message in messages):
            messages = with_system(messages, self._system)
        if prompt.tools and not abilities.tools:
            messages = with_system(messages, self._tool_prompt(prompt.tools))
        if not abilities.calls:
            messages = calls_as_text(messages, keep_results=abilities.results)
        elif not abilities.parallel_calls:
            messages = split_calls(messages)
        return arranged(messages)

    def _culprit(
        self,
        template: Template,
        prompt: ChatPrompt,
        abilities: Abilities,
        problem: RenderFailed,
    ) -> int | None:
        """The first message with which the template says the same; None where that isn't clear.

        By halving: a conversation that failed goes on failing as it grows, or so it mostly is.
        """

        @cache
        def fails(num_messages: int) -> bool:
            part = ChatPrompt(
                messages=prompt.messages[:num_messages],
                tools=prompt.tools,
                template_kwargs=prompt.template_kwargs,
            )
            try:
                arranged = next(iter(_arrangements(abilities)))
                _rendered(template, self._arranged(part, abilities, arranged), part, abilities)
            except RenderFailed as error:
                return error.place == problem.place
            return False

        low, high = 0, len(prompt.messages)  # `high` fails
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fails(middle) else (middle, high)
        return high - 1 if fails(high) else None

    def _refusal(self, problem: RenderFailed, culprit: int | None) -> InvalidRequest:
        place = "" if problem.line is None else f", line {problem.line}"
        tripped = "" if culprit is None else f" It stops at messages[{culprit}]."
        return InvalidRequest(
            f"The chat template of {self._model_name} does not take these messages: "
            f"{problem.words} (in the template{place}).{tripped}",
            param="messages" if culprit is None else f"messages[{culprit}]",
        )


def _arrangements(abilities: Abilities) -> list[Arrangement]:
    """The mildest that suits the template first; the stronger ones where it refuses that."""
    if not abilities.system:
        return [fold_system]
    if not abilities.repeated_turns:
        return [merge_turns, fold_system]
    if not abilities.later_system:
        return [system_in_front, merge_turns, fold_system]
    return [list, merge_turns, fold_system]


def _rendered(
    template: Template,
    messages: Sequence[Message],
    prompt: ChatPrompt,
    abilities: Abilities,
    image_text: str | None = None,
) -> str:
    form, num_images = abilities.form, len(prompt.images)
    if not num_images or image_text is None:
        return _written(template, messages, prompt, abilities, form)
    try:
        text = _written(template, messages, prompt, abilities, form)
        if text.count(image_text) == num_images:
            return text
    except RenderFailed as error:
        if error.is_limit:
            raise
    # A template that knows no images as parts of a message.
    form = replace(form, image_text=image_text)
    return _written(template, messages, prompt, abilities, form)


def _written(
    template: Template,
    messages: Sequence[Message],
    prompt: ChatPrompt,
    abilities: Abilities,
    form: Form,
) -> str:
    tools = prompt.tools if abilities.tools else ()
    return template.render(
        template_messages(messages, form),
        tools=template_tools(tools, form),
        variables={**_variables(prompt.template_kwargs, abilities), **tool_variables(tools, form)},
    )


def _variables(given: Mapping[str, Any], abilities: Abilities) -> dict[str, Any]:
    """The switch for thinking under the template's own name."""
    variables = dict(given)
    switch = abilities.thinking_switch
    if switch is not None and switch not in variables and "enable_thinking" in variables:
        variables[switch] = variables["enable_thinking"]
    return variables
