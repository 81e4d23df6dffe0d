"""One chat template: compiled once, rendered within limits, its failures told by the line.

Knows nothing of models or of what a client meant; messages are here already as templates want them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Protocol

from jinja2 import meta
from jinja2.exceptions import TemplateError, TemplateSyntaxError

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.text.chat_template.environment import ChatEnvironment, make_environment
from maxi_mlx.text.chat_template.limits import LimitExceeded, Limits, working

MAX_TEMPLATE_CHARS = 1 << 20
_MAX_WORDS = 400  # of a template's own message

Variables = Mapping[str, Any]


class RenderFailed(Exception):
    """``words`` is what the template or Jinja says; ``line`` is in the template, if known.
    ``is_limit``: it took too long or made too much, so that it isn't worth another try."""

    def __init__(self, words: str, *, line: int | None = None, is_limit: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.line = line
        self.is_limit = is_limit

    @property
    def place(self) -> tuple[str, int | None]:
        return self.words, self.line


class Template(Protocol):
    """Renders messages; raises `RenderFailed`. Our own, or a function that came with mlx-lm."""

    @property
    def variables(self) -> frozenset[str]: ...

    def render(
        self, messages: Sequence[Variables], *, tools: Sequence[Variables], variables: Variables
    ) -> str: ...


@lru_cache(maxsize=1)
def _environment() -> ChatEnvironment:
    return make_environment()


class JinjaTemplate:
    """Safe from any thread. ``name`` is for messages: the file, or the template's own name;
    ``special_tokens`` are ``bos_token`` and its like, which a client's variables may replace."""

    def __init__(
        self,
        text: str,
        *,
        name: str = "chat template",
        special_tokens: Mapping[str, str] | None = None,
        environment: ChatEnvironment | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Raises `InvalidRequest` where the text is no template."""
        self._limits = limits or Limits()
        self._special_tokens = dict(special_tokens or {})
        environment = environment or _environment()
        if len(text) > MAX_TEMPLATE_CHARS:
            raise InvalidRequest(
                f"The model's {name} has {len(text)} characters; at most {MAX_TEMPLATE_CHARS} are "
                "compiled."
            )
        try:
            # The extensions' calls are no variables of the template's.
            tree = environment.parse(text)
            self._template = environment.from_string(text)
        except TemplateSyntaxError as error:
            raise InvalidRequest(
                f"The model's {name} has a syntax error in line {error.lineno}: "
                f"{_short(error.message or '')}"
            ) from None
        except (TemplateError, RecursionError, ValueError, MemoryError, SyntaxError) as error:
            # Python's own compiler refuses what nests too deeply, in several ways.
            raise InvalidRequest(
                f"The model's {name} can't be compiled: {_short(str(error))}"
            ) from None
        self._variables = frozenset(meta.find_undeclared_variables(tree))

    @property
    def variables(self) -> frozenset[str]:
        """The names that it takes from outside, Jinja's and ours among them."""
        return self._variables

    def render(
        self, messages: Sequence[Variables], *, tools: Sequence[Variables], variables: Variables
    ) -> str:
        given = {
            **self._special_tokens,
            **variables,
            "messages": list(messages),
            "tools": list(tools) or None,
            "documents": None,
            "add_generation_prompt": True,
        }
        pieces: list[str] = []
        num_chars = 0
        try:
            with working(self._limits) as work:
                for piece in self._template.generate(given):
                    num_chars += len(piece)
                    work.check_length(num_chars)
                    work.tick()
                    pieces.append(piece)
        except LimitExceeded as error:
            line = _line(error.__traceback__)
            raise RenderFailed(str(error), line=line, is_limit=True) from None
        except RecursionError as error:
            raise RenderFailed("it nests too deeply", line=_line(error.__traceback__)) from None
        except Exception as error:
            # A template is a program of the model's: whatever it raises, it says no.
            words = _short(str(error)) or type(error).__name__
            raise RenderFailed(words, line=_line(error.__traceback__)) from None
        return "".join(pieces)


def _short(words: str) -> str:
    return words if len(words) <= _MAX_WORDS else f"{words[:_MAX_WORDS]}…"


def _line(traceback: TracebackType | None) -> int | None:
    """The innermost line of the template; Jinja writes its own lines into the traceback."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
