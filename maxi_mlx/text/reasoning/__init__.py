"""Thoughts told apart from what is said: their tags, and the machine that reads them."""

from maxi_mlx.text.reasoning.budget import ThinkingBudget
from maxi_mlx.text.reasoning.formats import (
    ReasoningFormat,
    find_reasoning_format,
    leaves_thought_open,
)
from maxi_mlx.text.reasoning.splitter import ReasoningSplitter

__all__ = [
    "ReasoningFormat",
    "ReasoningSplitter",
    "ThinkingBudget",
    "find_reasoning_format",
    "leaves_thought_open",
]
