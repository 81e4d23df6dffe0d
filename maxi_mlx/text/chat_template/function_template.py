"""A template that is a function instead of a text: mlx-lm brings some for models without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maxi_mlx.text.chat_template.template import RenderFailed


class FunctionTemplate:
    """``function`` is called as transformers' ``apply_chat_template`` is, for text. Its code is
    mlx-lm's, not the model folder's, so it runs without limits. ``variables`` are the names it is
    known to read."""

    def __init__(
        self, function: Callable[..., Any], *, variables: frozenset[str] = frozenset()
    ) -> None:
        self._function = function
        self._variables = variables

    @property
    def variables(self) -> frozenset[str]:
        return self._variables

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any],
    ) -> str:
        try:
            return str(
                self._function(
                    [dict(message) for message in messages],
                    tools=list(tools) or None,
                    add_generation_prompt=True,
                    tokenize=False,
                    **variables,
                )
            )
        except Exception as error:
            raise RenderFailed(str(error) or type(error).__name__) from None
