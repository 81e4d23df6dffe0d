"""Lines of a system prompt that are different in every request and say nothing to the model.

Claude Code puts such a line in front of its system prompt, for its vendor's billing:

    x-anthropic-billing-header: cc_version=2.1.197.f3a; cc_entrypoint=cli; cch=5bd2e;

Left there, no token after it could be found in the prefix cache, and each turn of an agent would
read its 20,000 tokens anew. To a model it means nothing, so that its answer is right without it. A
line goes only where it is that and nothing else: a text about it stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from maxi_mlx.core.request import Message

_NAME = "x-anthropic-billing-header:"
# Names and values, and nothing that could be a sentence.
_LINE = re.compile(
    rf"^{re.escape(_NAME)}(?:[ \t]*[\w.-]+=[^\s;]*(?:;|(?=[ \t]*\r?$)))*[ \t]*(?:\r?\n|\r?\Z)",
    re.MULTILINE,
)


def without_volatile_lines(text: str) -> str:
    """A system prompt's text as the model should see it."""
    return _LINE.sub("", text) if _NAME in text else text


def without_volatile_text(messages: Sequence[Message]) -> list[Message]:
    """The same for a conversation's system messages. One that was nothing else is left out, unless
    nothing would be left."""
    kept = []
    for message in messages:
        if message.role == "system" and message.text and _NAME in message.text:
            text = without_volatile_lines(message.text)
            if not text.strip():
                continue
            message = replace(message, text=text)
        kept.append(message)
    return kept or list(messages)
