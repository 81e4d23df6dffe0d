"""Prompts of about a given length. The same seed gives the same ones."""

from __future__ import annotations

import random

TEXT = """
the a small great old new red green quiet busy river harbour mountain garden market train letter
window lamp story teacher sailor baker child winter summer morning evening walks writes counts
finds opens carries remembers forgets under over behind beside through before after because
although while and but so then seven eleven twenty many few every other
"""
WORDS = TEXT.split()
WORDS_PER_TOKEN = 0.9  # for tokenizers of the usual size; tiny ones need more tokens
TASK = "Go on with this text, at length:"


def make_prompt(index: int, *, num_tokens: int, seed: int, is_same: bool = False) -> str:
    """The ``index``-th prompt. Unless ``is_same``, no two begin alike, so that a server's cache
    of prefixes does not do the work."""
    number = 0 if is_same else index
    generator = random.Random(f"{seed}/{number}")
    num_words = max(1, round(num_tokens * WORDS_PER_TOKEN) - len(TASK.split()) - 3)
    words = " ".join(generator.choice(WORDS) for _ in range(num_words))
    return f"{generator.randrange(10**6)}-{number}. {TASK} {words}"
