"""Prompts for the text between two texts, for the models that were trained to write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Markers:
    prefix: str
    suffix: str
    middle: str


# By family: the marks before the prefix, before the suffix, and before the answer.
_FAMILIES = (
    _Markers("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen2.5-Coder, CodeGemma
    _Markers("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, SmolLM, Granite
    _Markers("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    _Markers("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek-Coder
    _Markers("▁<PRE>", "▁<SUF>", "▁<MID>"),  # Code Llama
)
# Codestral writes the suffix first and has no mark before the answer.
_SUFFIX_FIRST = ("[SUFFIX]", "[PREFIX]")


def fill_in_middle_prompt(
    prefix: str, suffix: str, *, has_token: Callable[[str], bool]
) -> str | None:
    """The prompt text, or None where the vocabulary has no marks for it."""
    for marks in _FAMILIES:
        if all(map(has_token, (marks.prefix, marks.suffix, marks.middle))):
            return f"{marks.prefix}{prefix}{marks.suffix}{suffix}{marks.middle}"
    if all(map(has_token, _SUFFIX_FIRST)):
        return f"{_SUFFIX_FIRST[0]}{suffix}{_SUFFIX_FIRST[1]}{prefix}"
    return None
