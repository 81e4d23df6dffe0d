"""Chat templates: messages and tools to the prompt's text, in a sandbox, by Jinja alone."""

from __future__ import annotations

from maxi_mlx.text.chat_template.abilities import Abilities, find_abilities
from maxi_mlx.text.chat_template.chat import ChatTemplates
from maxi_mlx.text.chat_template.files import chat_templates, read_template_files, special_tokens
from maxi_mlx.text.chat_template.function_template import FunctionTemplate
from maxi_mlx.text.chat_template.template import JinjaTemplate, RenderFailed, Template

__all__ = [
    "Abilities",
    "ChatTemplates",
    "FunctionTemplate",
    "JinjaTemplate",
    "RenderFailed",
    "Template",
    "chat_templates",
    "find_abilities",
    "read_template_files",
    "special_tokens",
]
