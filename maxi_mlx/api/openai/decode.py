"""Bytes to a body of `schema`, and what is wrong with them in a person's words.

It knows JSON and msgspec's messages, not what the fields mean.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from maxi_mlx.core.errors import InvalidRequest

Body = TypeVar("Body")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# A broken body is read a second time, slowly, to say where it breaks; not one that takes long.
_MAX_EXPLAINED_BYTES = 1 << 20

_MAX_PATH_CHARS = 200  # of the inner end, for a message

_TOO_DEEP = "The request body nests lists or objects too deeply."

_EXPECTED = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_GOT = _EXPECTED | {"float": "a number with a decimal point", "bool": "a boolean"}

_PATH = re.compile(r" - at `\$\.?(.*)`$")
_WRONG_TYPE = re.compile(r"Expected `(.+)`, got `(.+)`")


def decode(body: bytes, decoder: msgspec.json.Decoder[Body]) -> Body:
    """The body, or an `InvalidRequest` that names the field."""
    body = body.removeprefix(_BYTE_ORDER_MARK)
    if not body or body.isspace():
        raise InvalidRequest("The request body is empty; send a JSON object.")
    _require_utf8(body)
    try:
        return decoder.decode(body)
    except RecursionError:
        raise InvalidRequest(_TOO_DEEP) from None
    except msgspec.ValidationError as error:
        raise _type_error(str(error)) from None
    except msgspec.DecodeError as error:
        raise _syntax_error(body, str(error)) from None


def json_text(value: object, *, param: str) -> str:
    """A decoded value as compact JSON text."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        raise InvalidRequest(f"'{param}' nests too deeply.", param=param) from None


def _require_utf8(body: bytes) -> None:
    # msgspec checks only the strings it keeps; whether a body is text shouldn't depend on that.
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"The request body is not UTF-8 text: byte {error.start} can't be decoded."
        ) from None


def _type_error(message: str) -> InvalidRequest:
    """msgspec says "Expected `str | null`, got `int` - at `$.messages[0].content`"."""
    path = _PATH.search(message)
    problem = message[: path.start()] if path else message
    # Inside an object of any keys msgspec doesn't say which.
    param, is_inside, _ = path[1].partition("[...]") if path else (None, "", "")
    subject = f"'{param}'" if param else "The request body"
    if is_inside:
        subject = f"A value in {subject}"
    if wrong_type := _WRONG_TYPE.fullmatch(problem):
        # That null is allowed too goes without saying.
        kinds = [kind for kind in wrong_type[1].split(" | ") if kind != "null"]
        expected = " or ".join(_EXPECTED.get(kind, kind) for kind in kinds)
        got = _GOT.get(wrong_type[2], wrong_type[2])
        return InvalidRequest(f"{subject} must be {expected}, not {got}.", param=param)
    if problem.endswith("out of range"):
        return InvalidRequest(f"{subject} is a number too large to read.", param=param)
    return InvalidRequest(f"{subject} is not valid: {problem}.", param=param)


def _syntax_error(body: bytes, detail: str) -> InvalidRequest:
    if len(body) > _MAX_EXPLAINED_BYTES:
        return InvalidRequest(f"The request body is not valid JSON: {detail}.")
    try:
        value = json.loads(body.decode(), parse_constant=_Constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        return InvalidRequest(f"The request body is not valid JSON: {error.msg} ({where}).")
    except RecursionError:
        return InvalidRequest(_TOO_DEEP)
    except ValueError:  # a number with more digits than Python reads
        return InvalidRequest(f"The request body is not valid JSON: {detail}.")
    return _first_fault(value) or InvalidRequest(f"The request body is not valid JSON: {detail}.")


class _Constant:
    """NaN or an infinity: Python's JSON reads and writes them, the standard has none."""

    def __init__(self, name: str) -> None:
        self.name = name


def _first_fault(root: Any) -> InvalidRequest | None:
    """What Python's JSON took and msgspec did not. On a stack of its own: input nests deeply."""
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        match value:
            case _Constant():
                return InvalidRequest(
                    f"'{path}' is {value.name}, which is not a number in JSON.", param=path or None
                )
            case str() if not _is_text(value):
                return InvalidRequest(
                    f"'{path}' has half of a surrogate pair (\\ud800 to \\udfff), "
                    "which is not a character.",
                    param=path or None,
                )
            case dict():
                for name in value:
                    if not _is_text(name):
                        return InvalidRequest("A field's name has half of a surrogate pair.")
                waiting += [
                    (f"{path}.{name}"[-_MAX_PATH_CHARS:].lstrip("."), item)
                    for name, item in value.items()
                ]
            case list():
                waiting += [
                    (f"{path}[{index}]"[-_MAX_PATH_CHARS:], item)
                    for index, item in enumerate(value)
                ]
            case _:
                pass
    return None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
