"""Pages with tables that are made from the code, between two marks in the text."""

from __future__ import annotations


def with_table(text: str, name: str, table: str) -> str:
    """The page with the table of that name written anew."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end {name} -->"
    before, rest = text.split(begin)
    return before + begin + table + end + rest.split(end)[1]
