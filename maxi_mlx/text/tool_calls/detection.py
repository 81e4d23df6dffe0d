"""Which way of writing tool calls a model was taught, by its chat template and its tokens."""

from __future__ import annotations

from collections.abc import Container

from maxi_mlx.text.tool_calls.syntax import ToolSyntax
from maxi_mlx.text.tool_calls.syntaxes import (
    DEEPSEEK_V32,
    FUNCTION_GEMMA,
    GEMMA4,
    GLM47,
    HARMONY,
    JSON_TOOLS,
    KIMI_K2,
    KIMI_K3,
    LLAMA3,
    LLAMA4,
    LONGCAT,
    MINICPM5,
    MINIMAX_M2,
    MISTRAL,
    MISTRAL_LIST,
    MUSE_SPARK,
    PYTHONIC,
    QWEN3_CODER,
)

_FAMILIES = {"muse_spark": MUSE_SPARK, "deepseek_v32": DEEPSEEK_V32, "laguna": GLM47}
_XTML = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")

# A template belongs to the first syntax all of whose texts it has.
_BY_TEMPLATE: tuple[tuple[ToolSyntax, tuple[str, ...]], ...] = (
    (MINIMAX_M2, ("<minimax:tool_call>",)),
    (GEMMA4, ("<|tool_call>", "<tool_call|>")),
    (FUNCTION_GEMMA, ("<start_function_call>",)),
    (LONGCAT, ("<longcat_tool_call>",)),
    (GLM47, ("<arg_key>",)),
    (PYTHONIC, ("<|tool_list_start|>",)),
    (PYTHONIC, ("<|tool_call_start|>",)),
    (QWEN3_CODER, ("<tool_call>\\n<function=",)),
    (QWEN3_CODER, ("<tool_call>\n<function=",)),
    (KIMI_K2, ("<|tool_calls_section_begin|>",)),
    (MINICPM5, ('<function name="', '<param name="')),
    (MISTRAL, ("[TOOL_CALLS]", "[ARGS]")),
    (MISTRAL_LIST, ("[TOOL_CALLS]",)),
    (MUSE_SPARK, ("<atem:function_calls>",)),
    (DEEPSEEK_V32, ("<｜DSML｜",)),
    (HARMONY, ("<|channel|>", "to=functions.")),
    (LLAMA4, ("<|python_start|>",)),
    (JSON_TOOLS, ("<tool_call>",)),
    (LLAMA3, ("<|python_tag|>",)),
    (LLAMA3, ("ipython", "parameters")),
)

_BY_TOKENS: tuple[tuple[ToolSyntax, tuple[str, ...]], ...] = (
    (KIMI_K3, _XTML),
    (HARMONY, ("<|channel|>", "<|message|>", "<|call|>")),
    (PYTHONIC, ("<|tool_call_start|>", "<|tool_call_end|>")),
)


def find_tool_syntax(
    template_text: str | None, token_names: Container[str], model_type: str = ""
) -> ToolSyntax | None:
    """How a model with this chat template, these tokens and this ``model_type`` writes calls; None
    where nothing says that it was taught any way (see `maxi_mlx.text.tool_calls.prompt`)."""
    template = template_text or ""
    for syntax, texts in _BY_TEMPLATE:
        if all(text in template for text in texts):
            return syntax
    for syntax, tokens in _BY_TOKENS:
        if all(token in token_names for token in tokens):
            return syntax
    return _FAMILIES.get(model_type) if template_text is None else None
