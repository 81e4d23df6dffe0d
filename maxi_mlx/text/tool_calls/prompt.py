"""Tools for a model whose template knows none: described in the system text, called as JSON.

The calls come back in the syntax `syntaxes.GENERIC`; results are shown as text of the user's turn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from maxi_mlx.core.request import Tool

_BEFORE = """\
You can call functions. Each line between <tools> and </tools> describes one in JSON:
<tools>"""

_AFTER = """\
</tools>
To call a function, write its name and its arguments as JSON between tags, and nothing after them:
<tool_call>
{"name": "the function's name", "arguments": {"an argument": "its value"}}
</tool_call>
Repeat this for every call you need. The results come back between <tool_response> tags. If no \
function helps, answer without one."""


def generic_tool_prompt(tools: Sequence[Tool]) -> str:
    """What the system message says of ``tools``, ready to be put behind its own text."""
    lines = [
        json.dumps(
            {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": tool.parameters or {"type": "object", "properties": {}},
            },
            ensure_ascii=False,
        )
        for tool in tools
    ]
    return "\n".join((_BEFORE, *lines, _AFTER))


def call_text(name: str, arguments: str) -> str:
    """An earlier call as the model is told to write it; ``arguments`` is JSON text."""
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'


def result_text(text: str, *, name: str | None = None) -> str:
    """A call's result as it is shown in a user's turn."""
    head = f" name={json.dumps(name)}" if name else ""
    return f"<tool_response{head}>\n{text}\n</tool_response>"
