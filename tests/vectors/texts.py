"""Fifty texts of 1 to 512 tokens that the pinned vectors were made of."""

from __future__ import annotations

import random

from tests.models.corpus import CORPUS

_SHORT = (
    "a",
    "Hi!",
    "The capital of France is Paris.",
    "HOW MANY WORDS ARE THERE?",
    "naïve café, Zürich & São Paulo",
    "東京は日本の首都です。",
    "Съешь ещё этих мягких французских булок",
    "👩‍👩‍👧 🚀 emoji and ☃",
    "def add(a, b):\n    return a + b\n",
    "https://example.org/a?b=c#d, 3.14159 and 1,000,000",
    "  spaces \t and\n\nlines  ",
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
)
_NUM_WORDS = (2, 3, 5, 8, 13, 16, 21, 27, 34, 40, 48, 55, 63, 70, 80, 90, 100, 110, 120, 130, 140)
_LONG = (145, 150, 155, 160, 165, 170, 175, 180, 185, 190, 200, 210, 220, 235, 250, 270, 290)


def texts() -> list[str]:
    words = " ".join(CORPUS).split()
    chosen = random.Random(6)
    made = [" ".join(chosen.choices(words, k=count)) for count in (*_NUM_WORDS, *_LONG)]
    return [*_SHORT, *made]
