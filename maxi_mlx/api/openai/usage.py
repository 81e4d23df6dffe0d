"""Token counts as both endpoints write them."""

from __future__ import annotations

from maxi_mlx.api.openai.answer_schema import UsageItem
from maxi_mlx.core.events import Usage


def usage_object(usage: Usage) -> UsageItem:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
