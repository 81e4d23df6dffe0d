"""The Jinja environment that chat templates are written for: Hugging Face's names, in a sandbox.

The names and their behaviour are those of transformers' ``apply_chat_template``, which a test holds
this against.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from maxi_mlx.text.chat_template.limits import LimitExceeded, current_work

MAX_NUMBER_BITS = 4096
_MAX_FORMAT_CHARS = 200
_PADDING = frozenset({"center", "ljust", "rjust", "zfill"})


class TemplateRefusal(TemplateError):
    """What the template itself says no with (``raise_exception``)."""


class GenerationTag(Extension):
    """``{% generation %}`` marks the assistant's words for training; here it only holds them."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own attribute

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        # A call of its body, as transformers has it: what is set inside isn't seen after it.
        call = nodes.CallBlock(self.call_method("_said"), [], [], body)
        return call.set_lineno(line)

    def _said(self, caller: Macro) -> str:
        return str(caller())


class Ticking(Extension):
    """Puts a look at the time into every loop and macro, and one at the length into every ``~``."""

    def tick(self) -> str:
        if (work := current_work()) is not None:
            work.tick()
        return ""

    def joined(self, value: Any) -> Any:
        _check_value(value)
        return value

    def insert(self, template: nodes.Template) -> None:
        bodies: list[nodes.For | nodes.Macro | nodes.CallBlock] = []
        for kind in (nodes.For, nodes.Macro, nodes.CallBlock):
            bodies += template.find_all(kind)
        for node in bodies:
            tick = nodes.ExprStmt(self.call_method("tick", lineno=node.lineno), lineno=node.lineno)
            node.body.insert(0, tick)
        self._wrap_joins(template)

    def _wrap_joins(self, root: nodes.Node) -> None:
        waiting = [root]
        while waiting:
            node = waiting.pop()
            waiting += node.iter_child_nodes()
            for name, value in node.iter_fields():
                if isinstance(value, nodes.Concat):
                    setattr(node, name, self._wrapped(value))
                elif isinstance(value, list):
                    value[:] = [
                        self._wrapped(item) if isinstance(item, nodes.Concat) else item
                        for item in value
                    ]

    def _wrapped(self, node: nodes.Concat) -> nodes.Expr:
        return self.call_method("joined", [node], lineno=node.lineno)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """One for all templates; safe from any thread, as nothing in it changes."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        ticking = self.extensions[Ticking.identifier]
        assert isinstance(ticking, Ticking)
        ticking.insert(template)
        return template

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator in ("*", "**"):
            _check_product(operator, left, right)
        value = super().call_binop(context, operator, left, right)
        _check_value(value)
        return value

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        # Jinja's own signature: the template's keywords may have any name.
        if getattr(__obj, "__name__", None) in _PADDING and args and isinstance(args[0], int):
            _check_length(args[0])
        return super().call(__context, __obj, *args, **kwargs)


def _check_length(length: int) -> None:
    if (work := current_work()) is not None:
        work.check_length(length)


def _check_value(value: Any) -> None:
    if isinstance(value, str | list | tuple):
        _check_length(len(value))
    elif isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
        raise LimitExceeded(f"it made a number of {value.bit_length()} bits")


def _check_product(operator: str, left: Any, right: Any) -> None:
    """Before it is made: a product may be as large as the machine."""
    if operator == "**":
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * abs(right)
            if bits > MAX_NUMBER_BITS:
                raise LimitExceeded(f"it would make a number of {bits} bits")
        return
    for value, count in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(count, int):
            _check_length(len(value) * count)


class _Dict:
    """``dict`` without the attributes of the class, which lead out of the sandbox."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """Jinja's, less the names that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # Jinja's way to allow a name "self"
        self, *rest = args
        values = dict(*rest, **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace has no room for the name {name!r}")


def _raise_exception(message: object) -> NoReturn:
    raise TemplateRefusal(str(message))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own would escape what HTML has a use for."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def make_environment(now: Callable[[], datetime] = datetime.now) -> ChatEnvironment:
    """``now`` is the time that templates write into prompts, as many do with the date."""

    def strftime_now(form: str) -> str:
        if len(form) > _MAX_FORMAT_CHARS or any(digit in form for digit in "0123456789"):
            raise LimitExceeded("it asks for a date in a form that may be of any length")
        return now().strftime(form)

    environment = ChatEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, Ticking, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = strftime_now
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment
