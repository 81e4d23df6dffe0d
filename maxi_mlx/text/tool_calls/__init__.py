"""Tool calls: the ways that models write them, the machine that reads them, and their shapes."""

from maxi_mlx.text.tool_calls.call import new_call_id
from maxi_mlx.text.tool_calls.detection import find_tool_syntax
from maxi_mlx.text.tool_calls.prompt import call_text, generic_tool_prompt, result_text
from maxi_mlx.text.tool_calls.reader import ToolCallReader
from maxi_mlx.text.tool_calls.syntax import ToolSyntax
from maxi_mlx.text.tool_calls.syntaxes import BY_NAME, GENERIC

__all__ = [
    "BY_NAME",
    "GENERIC",
    "ToolCallReader",
    "ToolSyntax",
    "call_text",
    "find_tool_syntax",
    "generic_tool_prompt",
    "new_call_id",
    "result_text",
]
