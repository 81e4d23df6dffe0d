"""What the scripted engine says to agents: a word, or a call of whatever shell tool they offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from maxi_mlx.core.request import GenerateRequest
from tests.clients.scripted_engine import Reply, messages_of

GREETING = "Hello from the script."
COMMAND = "echo written by a tool > note.txt && cat note.txt"
# For agents that take files from the text: a name, and what belongs into it.
FILE_IN_TEXT = "note.txt\n```\nwritten by a tool\n```"
FILE, CONTENT = "note.txt", "written by a tool\n"
TOLD = "The tool said: written by a tool"

# The tool by which each agent runs commands, with the arguments that it takes.
SHELLS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "Bash": lambda command: {"command": command, "description": "Writes the file"},
    "bash": lambda command: {"command": command, "description": "Writes the file"},
    "exec_command": lambda command: {"cmd": command},
}


def script(request: GenerateRequest) -> Reply:
    """A call of the shell where a file is asked for, and a word on its result."""
    messages = messages_of(request)
    results = [message for message in messages if message.role == "tool"]
    if results:
        # Agents put words of their own around it.
        told = results[-1].text or ""
        return Reply(f"The tool said: {CONTENT.strip() if CONTENT.strip() in told else told}")
    asked = " ".join(message.text or "" for message in messages if message.role == "user")
    if "write the file" not in asked:
        return Reply(GREETING)
    offered = {tool.name for tool in request.tools}
    for name, arguments in SHELLS.items():
        if name in offered:
            return Reply("I will.", (name, arguments(COMMAND)))
    return Reply(FILE_IN_TEXT)
