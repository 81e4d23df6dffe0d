"""Patterns as JSON Schema has them (JavaScript's) in the words of Rust's regular expressions, which
llguidance reads: the same signs mean other things in some places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A sign, or several that are one; the last takes all the rest.
_PART = re.compile(r"\\c[A-Za-z]|\\.|\{[0-9]+(?:,[0-9]*)?\}|.", re.DOTALL)


def rust_pattern(pattern: str) -> str:
    """To Rust ``[``, ``&&``, ``--`` and ``~~`` are operators in a set, ``\\<`` and ``\\>`` are
    borders of words, and a brace must count; to JavaScript all are plain signs."""
    return "".join(_translated(pattern))


def _translated(pattern: str) -> Iterator[str]:
    is_in_set, last = False, ""
    for match in _PART.finditer(pattern):
        part = match[0]
        if part.startswith("\\c") and len(part) == 3:
            yield f"\\x{ord(part[2]) % 32:02x}"
        elif part in (r"\<", r"\>"):
            yield part[1]
        elif is_in_set:
            yield _in_set(part, last)
            is_in_set = part != "]" or last == "["
        elif part == "{":
            yield r"\{"
        else:
            yield part
            is_in_set = part == "["
        last = "[" if is_in_set and last == "[" and part == "^" else part


def _in_set(part: str, last: str) -> str:
    if part == r"\b":
        return r"\x08"
    if part in ("[", "&", "~") or (part == "-" and last == "-"):
        return "\\" + part
    return part
