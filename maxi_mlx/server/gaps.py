"""APIs that clients ask for and that this version doesn't serve; knows them by their paths."""

from __future__ import annotations

from itertools import dropwhile

# The path's first word behind any ``v1``, and what begins the sentence "… not in this version yet".
_GAPS = {
    "audio": "Making speech is",
    "images": "Making images is",
    "moderations": "Moderation is",
}


def gap_at(path: str) -> str | None:
    """The beginning of a sentence on the API that would be at ``path``; None where none would."""
    words = dropwhile(lambda word: word in ("", "v1"), path.split("/"))
    return _GAPS.get(next(words, ""))
