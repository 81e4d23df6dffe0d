"""How a model speaks: its chat templates, and the way it was taught to think and to call tools.

Read once when a model is loaded, off its files and its vocabulary; used by worker threads.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.request import IMAGE_MARK, ChatPrompt, Message
from maxi_mlx.text.chat_template import (
    ChatTemplates,
    FunctionTemplate,
    chat_templates,
    read_template_files,
)
from maxi_mlx.text.reasoning import ReasoningFormat, find_reasoning_format
from maxi_mlx.text.tool_calls import BY_NAME, GENERIC, ToolSyntax, find_tool_syntax
from maxi_mlx.text.volatile import without_volatile_text

_THINKING = frozenset({"enable_thinking"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """``problem`` is why chats can't be served, where the model's template is broken."""

    templates: ChatTemplates
    reasoning: ReasoningFormat | None
    tool_syntax: ToolSyntax | None
    problem: InvalidRequest | None = None

    def render(self, prompt: ChatPrompt, *, image_text: str | None = None) -> str:
        """The prompt's text, with ``image_text`` for each image. Raises InvalidRequest where the
        template does not take it."""
        if self.problem is not None:
            raise InvalidRequest(self.problem.message, param="model")
        messages = tuple(without_volatile_text(prompt.messages))
        if prompt.images:
            # A client's own mark would be taken for an image.
            messages = tuple(each if each.images else _without_marks(each) for each in messages)
        return self.templates.render(replace(prompt, messages=messages), image_text=image_text)

    def syntax_for(self, prompt: ChatPrompt) -> ToolSyntax:
        """How the answer to a prompt with tools writes its calls."""
        if self.tool_syntax is None or self.templates.uses_generic_tools(prompt):
            return GENERIC
        return self.tool_syntax


def _without_marks(message: Message) -> Message:
    return replace(message, text=message.text and message.text.replace(IMAGE_MARK, ""))


def read_habits(entry: ModelEntry, tokenizer: Any) -> Habits:
    """``tokenizer`` is mlx-lm's, which brings templates in Python for some models without one."""
    problem: InvalidRequest | None = None
    files: Mapping[str, str] = {}
    templates = ChatTemplates({}, model_name=entry.id)
    own, system = entry.settings.chat_template, entry.settings.system
    function = getattr(tokenizer, "_chat_template", None) if own is None else None
    try:
        files = read_template_files(entry.path, own)
        if function is None:
            templates = ChatTemplates.from_files(files, model_name=entry.id, system=system)
    except InvalidRequest as error:
        problem = error
    if function is not None:
        template = FunctionTemplate(tokenizer.apply_chat_template, variables=_THINKING)
        templates = ChatTemplates({"default": template}, model_name=entry.id, system=system)
    texts = {} if function is not None or problem is not None else chat_templates(files)
    names = tokenizer.get_vocab()
    text = "\n".join(texts.values()) if texts else None
    return Habits(
        templates=templates,
        reasoning=find_reasoning_format(text, names),
        tool_syntax=_tool_syntax(entry, text, names),
        problem=problem,
    )


def _tool_syntax(
    entry: ModelEntry, template_text: str | None, token_names: Container[str]
) -> ToolSyntax | None:
    named = entry.settings.tool_parser
    if named is not None:
        return BY_NAME[named]
    return find_tool_syntax(template_text, token_names, entry.model_type or "")
