"""How a model is to think, from the several names of the wire to the core's one value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from maxi_mlx.api.openai.sampling import Range, check_range, shown
from maxi_mlx.api.openai.schema import ChatBody, Thinking
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Reasoning

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BUDGET = Range(0, 2**31 - 1)

# What rendering a template takes for itself. A client that could set these could send a template,
# which is a program, or get something else than a prompt back.
_RESERVED_TEMPLATE_NAMES = frozenset(
    {"chat_template", "conversation", "messages", "tools", "documents", "template"}
    | {"add_generation_prompt", "continue_final_message", "tokenize", "tokenizer_kwargs"}
    | {"padding", "truncation", "max_length", "return_tensors", "return_dict"}
    | {"return_assistant_tokens_mask", "sanitize_control_tokens", "self"}
)
_TEMPLATE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def reasoning(body: ChatBody, *, effort: str | None) -> Reasoning:
    """``effort`` is the one that counts: chat's own, or the Responses API's."""
    thinking = body.thinking
    if isinstance(thinking, bool):
        thinking = Thinking(type="enabled" if thinking else "disabled")
    enabled = _switched(body.chat_template_kwargs or {})
    if enabled is None:
        enabled = body.enable_thinking
    if thinking is not None and enabled is None:
        enabled = _is_enabled(thinking)
    if enabled is None and effort == "none":
        enabled = False
    budgets = {
        "thinking_budget": body.thinking_budget,
        "thinking_token_budget": body.thinking_token_budget,
        "thinking.budget_tokens": None if thinking is None else thinking.budget_tokens,
    }
    return Reasoning(effort=effort, enabled=enabled, budget_tokens=_budget(budgets))


def _switched(template_kwargs: Mapping[str, Any]) -> bool | None:
    """What the template is told under its own names for whether to think."""
    given = (template_kwargs.get(name) for name in ("enable_thinking", "thinking"))
    return next((value for value in given if isinstance(value, bool)), None)


def _is_enabled(thinking: Thinking) -> bool | None:
    match thinking.type:
        case "enabled":
            return True
        case "disabled":
            return False
        case None | "adaptive" | "auto":
            return None
        case unknown:
            raise InvalidRequest(
                f"'thinking.type' must be 'enabled', 'disabled' or 'adaptive', not "
                f"{shown(unknown)!r}.",
                param="thinking.type",
            )


def _budget(named: Mapping[str, int | None]) -> int | None:
    """The first that was given; all are checked. -1 is no limit, as Qwen's own API has it."""
    for name, value in named.items():
        if value is not None and value != -1:
            check_range(name, value, allowed=_BUDGET)
    given = next((value for value in named.values() if value is not None), None)
    return None if given == -1 else given


def checked_effort(wire: str | None, param: str) -> str | None:
    if wire is not None and wire not in EFFORTS:
        raise InvalidRequest(
            f"'{param}' must be one of {', '.join(EFFORTS)}, not {wire[:40]!r}.", param=param
        )
    return wire


def template_kwargs(body: ChatBody, settings: Reasoning) -> Mapping[str, Any]:
    """The names for the chat template; what the client put there itself wins over the settings."""
    kwargs: dict[str, Any] = {}
    if settings.effort is not None:
        kwargs["reasoning_effort"] = settings.effort
    if settings.enabled is not None:  # most templates know a switch, not a scale
        kwargs["enable_thinking"] = settings.enabled
    for name, value in (body.chat_template_kwargs or {}).items():
        if name in _RESERVED_TEMPLATE_NAMES or not _TEMPLATE_NAME.fullmatch(name):
            raise InvalidRequest(
                f"'chat_template_kwargs' may not set {name[:40]!r}; it takes names that the "
                "model's template knows, such as 'enable_thinking'.",
                param=f"chat_template_kwargs.{name[:40]}",
            )
        kwargs[name] = value
    return kwargs
