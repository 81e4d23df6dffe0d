"""How the model is to think, from Anthropic's form to the core's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maxi_mlx.api.anthropic.schema import CountBody, Thinking
from maxi_mlx.api.openai.reasoning import checked_effort
from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Reasoning


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingUse:
    """``is_shown``: thoughts are told, and not only signed."""

    reasoning: Reasoning = field(default_factory=Reasoning)
    is_shown: bool = True

    @property
    def template_kwargs(self) -> Mapping[str, Any]:
        kwargs: dict[str, Any] = {}
        if self.reasoning.effort is not None:
            kwargs["reasoning_effort"] = self.reasoning.effort
        if self.reasoning.enabled is not None:  # most templates know a switch, not a scale
            kwargs["enable_thinking"] = self.reasoning.enabled
        return kwargs


def thinking_use(body: CountBody, *, max_tokens: int | None) -> ThinkingUse:
    """``max_tokens`` None: there is no answer that the budget would have to leave room for."""
    effort = body.output_config.effort if body.output_config is not None else None
    thinking = body.thinking or Thinking()
    enabled, budget = _mode(thinking, is_given=body.thinking is not None)
    if budget is not None and budget < 1:
        raise InvalidRequest(
            f"'thinking.budget_tokens' must be at least 1, not {shown(budget)}; to have no "
            "thought, send the type 'disabled'.",
            param="thinking.budget_tokens",
        )
    if budget is not None and max_tokens and budget >= max_tokens:
        raise InvalidRequest(
            f"'thinking.budget_tokens' is {shown(budget)}, but 'max_tokens' is "
            f"{shown(max_tokens)} and must leave room for an answer. Raise it above the budget.",
            param="thinking.budget_tokens",
        )
    if thinking.display not in (None, "summarized", "omitted"):
        raise InvalidRequest(
            f"'thinking.display' must be 'summarized' or 'omitted', not "
            f"{shown(thinking.display)!r}.",
            param="thinking.display",
        )
    return ThinkingUse(
        reasoning=Reasoning(
            effort=checked_effort(effort, "output_config.effort"),
            enabled=enabled,
            budget_tokens=budget,
        ),
        is_shown=thinking.display != "omitted",
    )


def _mode(thinking: Thinking, *, is_given: bool) -> tuple[bool | None, int | None]:
    """Whether to think, and the budget. A model with a switch is switched on by "adaptive" too:
    whether it then thinks is its own affair."""
    match thinking.type:
        case "enabled":
            return True, thinking.budget_tokens
        case "adaptive" | "between_tools":
            return True, None
        case "disabled":
            return False, None
        case None if not is_given:
            return None, None
        case None:
            raise InvalidRequest("'thinking.type' is missing.", param="thinking.type")
        case unknown:
            raise InvalidRequest(
                f"'thinking.type' must be 'enabled', 'adaptive', 'between_tools' or 'disabled', "
                f"not {shown(unknown)!r}.",
                param="thinking.type",
            )
