"""Every way of writing tool calls that is known here."""

from __future__ import annotations

from collections.abc import Mapping

from maxi_mlx.text.tool_calls.other_syntaxes import (
    FUNCTION_GEMMA,
    GEMMA4,
    HARMONY,
    KIMI_K2,
    LLAMA3,
    LLAMA4,
    MISTRAL,
    MISTRAL_LIST,
    PYTHONIC,
)
from maxi_mlx.text.tool_calls.syntax import ToolSyntax
from maxi_mlx.text.tool_calls.tag_syntaxes import (
    DEEPSEEK_V32,
    GLM47,
    JSON_TOOLS,
    KIMI_K3,
    LONGCAT,
    MINICPM5,
    MINIMAX_M2,
    MUSE_SPARK,
    QWEN3_CODER,
)

__all__ = [
    "ALL",
    "BY_NAME",
    "DEEPSEEK_V32",
    "FUNCTION_GEMMA",
    "GEMMA4",
    "GENERIC",
    "GLM47",
    "HARMONY",
    "JSON_TOOLS",
    "KIMI_K2",
    "KIMI_K3",
    "LLAMA3",
    "LLAMA4",
    "LONGCAT",
    "MINICPM5",
    "MINIMAX_M2",
    "MISTRAL",
    "MISTRAL_LIST",
    "MUSE_SPARK",
    "PYTHONIC",
    "QWEN3_CODER",
]

ALL = (
    MINIMAX_M2,
    GEMMA4,
    FUNCTION_GEMMA,
    LONGCAT,
    GLM47,
    PYTHONIC,
    QWEN3_CODER,
    KIMI_K2,
    MINICPM5,
    MISTRAL,
    MISTRAL_LIST,
    MUSE_SPARK,
    DEEPSEEK_V32,
    KIMI_K3,
    HARMONY,
    LLAMA4,
    LLAMA3,
    JSON_TOOLS,
)

BY_NAME: Mapping[str, ToolSyntax] = {syntax.name: syntax for syntax in ALL}
GENERIC = JSON_TOOLS
