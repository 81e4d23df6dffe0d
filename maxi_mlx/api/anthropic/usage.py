"""Token counts, and why an answer ended, in Anthropic's words."""

from __future__ import annotations

from maxi_mlx.api.anthropic.answer_schema import StopFields, StopReason, UsageItem
from maxi_mlx.core.events import Finished, Usage


def usage_object(usage: Usage) -> UsageItem:
    """``input_tokens`` are those of the prompt that no cache had, as Anthropic counts them. What
    is left in the cache costs nothing, so that it isn't told apart from them."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "service_tier": "standard",
    }


def stop_fields(finished: Finished, *, max_tokens: int) -> StopFields:
    """``max_tokens`` is the client's limit; an answer that is cut before it met the context's
    end."""
    reason: StopReason
    if max_tokens == 0:
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    match finished.reason:
        case "tool_calls":
            reason = "tool_use"
        case "stop":
            reason = "end_turn" if finished.stop_string is None else "stop_sequence"
        case "length":
            is_full = finished.completion_tokens < max_tokens
            reason = "model_context_window_exceeded" if is_full else "max_tokens"
    return {"stop_reason": reason, "stop_sequence": finished.stop_string}
