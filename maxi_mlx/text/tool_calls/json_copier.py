"""Copies the text of a JSON value as it comes, and mends the mistakes that models make in it.

Good JSON passes unchanged, space for space. Mended are: trailing and missing commas, quotes of the
wrong kind or unescaped, line breaks and odd escapes in strings, Python's words, keys without
quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from maxi_mlx.text.source import SPACE, Reading, Source, Tags

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LOOSE_NUMBER = re.compile(r"([+-]?)([0-9][0-9_]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_WORDS = {
    "true": "true",
    "false": "false",
    "null": "null",
    "none": "null",
    "undefined": "null",
    "nan": "null",  # JSON has no word for these; JavaScript writes null too
    "infinity": "null",
    "-infinity": "null",
    "inf": "null",
    "-inf": "null",
}
_WORD = re.compile(r"[^\s,\[\]{}()\"'<>:]*")
_KEY = re.compile(r"[\w$.-]*")
_BARE_TEXT = re.compile(r"[^,\[\]{}<]*")
_ESCAPES = (
    r'\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
# Characters, and escapes as JSON has them, that are copied as they are.
_PLAIN = {
    '"': re.compile(rf'(?:[^"\\\x00-\x1f]+|{_ESCAPES})*'),
    "'": re.compile(rf"(?:[^\"'\\\x00-\x1f]+|{_ESCAPES})*"),
}
_CONTROL = re.compile(r"[\x00-\x1f]*")
_QUOTES = {'"': re.compile(r'"*'), "'": re.compile(r"'*")}
_NUMBERS = re.compile(rf"{NUMBER.pattern}(?:, ?{NUMBER.pattern})*(?=[,\]])")
_LISTS = re.compile(r"\[*")
_NO_CODE = 0x110000  # the first number that is no character's
_HEX = re.compile(r"[0-9a-fA-F]*")
_BRACKETS = {"{": "}", "[": "]", "(": "]"}


class Malformed(Exception):
    """This is no value, or not any more. ``is_inside``: the text ended inside a string."""

    def __init__(self, *, is_inside: bool = False) -> None:
        super().__init__()
        self.is_inside = is_inside


@dataclass(frozen=True, slots=True)
class Dialect:
    """How values are written that are not quite JSON. ``raw_quote`` is on both sides of a string
    without escapes; with ``has_bare_text`` a string may have no quotes at all; with
    ``has_tuples``, ``(1, 2)`` is a list."""

    raw_quote: str = ""
    has_bare_text: bool = False
    has_tuples: bool = False


JSON = Dialect()
PYTHON = Dialect(has_tuples=True)


def escaped(text: str) -> str:
    """``text`` as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class JsonCopier:
    """Reads one value from ``source`` and writes its JSON text, a piece at a time.

    Commas, spaces and keys are written with the value they lead to, so that what was written can
    always be closed (`closing`), unless it ended inside a string. ``end_tag`` is what may follow
    the value even where brackets are missing.
    """

    def __init__(
        self,
        source: Source,
        write: Callable[[str], object],
        *,
        end_tag: str = "",
        dialect: Dialect = JSON,
        lead: str = "",
    ) -> None:
        self._source = source
        self._write = write
        self._end_tag = end_tag
        self._dialect = dialect
        self._pending = [lead] if lead else []
        self._after_value = False
        self._open: list[str] = []  # the closing brackets that are owed
        self._closers = {"}", "]", ")"} if dialect.has_tuples else {"}", "]"}

    def closing(self) -> str:
        """The brackets that close what was written."""
        return "".join(reversed(self._open))

    def value(self) -> Reading[None]:
        """Copies the value; raises `Malformed` where it can't go on."""
        yield from self._source.run(SPACE)
        yield from self._begin()
        while self._open:
            yield from self._space()
            yield from self._member()

    def _flush(self, text: str) -> None:
        self._write("".join((*self._pending, text)))
        self._pending.clear()

    def _space(self) -> Reading[None]:
        space = yield from self._source.run(SPACE)
        if space:
            self._pending.append(space)

    # -- inside a bracket: a member, or its end ------------------------------------------------

    def _member(self) -> Reading[None]:
        """What comes next inside the innermost bracket."""
        character = yield from self._source.peek()
        if not character:
            raise Malformed
        if character == ",":
            if not self._after_value:
                raise Malformed
            self._source.take(1)
            yield from self._after_comma()
            return
        if character in self._closers:
            if (character == "}") != (self._open[-1] == "}"):
                raise Malformed
            self._source.take(1)
            self._flush(self._open.pop())
            self._after_value = True
            return
        if self._after_value:
            if character not in "\"'{[" and not character.isalnum():
                raise Malformed
            self._pending.insert(0, ",")  # left out
        yield from self._key_and_value()

    def _after_comma(self) -> Reading[None]:
        """A comma is written if another member follows, and dropped before a closing bracket."""
        spaces = self._pending[:]
        self._pending.clear()
        space = yield from self._source.run(SPACE)
        character = yield from self._source.peek()
        if not character:
            raise Malformed
        if character in self._closers:
            self._pending.extend((*spaces, space))
            return
        self._pending.extend((*spaces, ",", space))
        yield from self._key_and_value()

    def _key_and_value(self) -> Reading[None]:
        if self._open[-1] == "}":
            yield from self._key()
            space = yield from self._source.run(SPACE)
            if not (yield from self._source.expect(":")):
                raise Malformed
            self._pending.append(space + ":")
            yield from self._space()
        yield from self._begin()

    def _key(self) -> Reading[None]:
        character = yield from self._source.peek()
        raw_quote = self._dialect.raw_quote
        if raw_quote and (yield from self._source.expect(raw_quote)):
            self._pending.append('"')
            yield from self._raw_string(self._pending.append)
        elif character and character in "\"'":
            self._source.take(1)
            yield from copy_string(self._source, character, self._pending.append, is_key=True)
        else:
            name = yield from self._source.run(_KEY)
            if not name:
                raise Malformed
            self._pending.append(json.dumps(name, ensure_ascii=False))

    # -- values --------------------------------------------------------------------------------

    def _begin(self) -> Reading[None]:
        """Copies a string or a word, or the bracket that begins a longer value."""
        character = yield from self._source.peek()
        if not character:
            raise Malformed
        raw_quote = self._dialect.raw_quote
        if character == "[":
            opened = yield from self._source.run(_LISTS)
            self._flush(opened)
            self._open.extend("]" * len(opened))
            self._after_value = False
            return
        if character == "{" or (character == "(" and self._dialect.has_tuples):
            self._source.take(1)
            closer = _BRACKETS[character]
            self._flush("{" if closer == "}" else "[")
            self._open.append(closer)
            self._after_value = False
            return
        if raw_quote and (yield from self._source.expect(raw_quote)):
            self._flush('"')
            yield from self._raw_string(self._write)
        elif character in "\"'":
            self._source.take(1)
            self._flush("")
            yield from copy_string(self._source, character, self._write, end_tag=self._end_tag)
        else:
            yield from self._word()
        self._after_value = True

    def _raw_string(self, write: Callable[[str], object]) -> Reading[None]:
        """A string without escapes, after its opening quote."""
        tags = Tags((self._dialect.raw_quote,))
        found = yield from self._source.pass_until(tags, lambda text: write(escaped(text)))
        if not found:
            raise Malformed(is_inside=True)
        write('"')

    def _word(self) -> Reading[None]:
        numbers = _NUMBERS.match(self._source.buffer, self._source.at)
        if numbers is not None and self._open and self._open[-1] == "]":
            self._flush(self._source.take(len(numbers[0])))
            return
        pattern = _BARE_TEXT if self._dialect.has_bare_text else _WORD
        word = (yield from self._source.run(pattern)).rstrip()
        if self._source.is_cut and not self._source.num_unread:
            raise Malformed(is_inside=True)
        text = json_word(word)
        if text is None:
            if not word or not self._dialect.has_bare_text:
                raise Malformed
            text = json.dumps(word, ensure_ascii=False)
        self._flush(text)


def json_word(word: str) -> str | None:
    """A number or one of JSON's words, however it was written; None if it is neither."""
    if NUMBER.fullmatch(word):
        return word
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    match = _LOOSE_NUMBER.fullmatch(word)
    if match is None or not (match[2] or len(match[3] or "") > 1):
        return None
    whole = (match[2] or "0").replace("_", "").lstrip("0") or "0"
    fraction = match[3] or ""
    sign = "-" if match[1] == "-" else ""
    return sign + whole + (fraction if len(fraction) > 1 else "") + (match[4] or "")


# -- strings -----------------------------------------------------------------------------------


def copy_string(
    source: Source,
    quote: str,
    write: Callable[[str], object],
    *,
    end_tag: str = "",
    is_key: bool = False,
) -> Reading[None]:
    """Copies a string from after its opening ``quote``; every piece written is whole escapes.

    A quote that is not followed by what may follow a string is part of it.
    """
    write('"')
    plain = _PLAIN[quote]
    while True:
        yield from source.pass_run(plain, write)
        character = yield from source.peek()
        if not character:
            raise Malformed(is_inside=True)
        source.take(1)
        if character == "\\":
            yield from _copy_escape(source, write)
        elif character == quote:
            more = _QUOTES[quote].match(source.buffer, source.at)
            if more is not None and more[0]:  # a quote before a quote is part of the string
                write(escaped(character + more[0][1:]))
                source.take(len(more[0]) - 1)
            elif (yield from _ends_string(source, end_tag=end_tag, is_key=is_key)):
                write('"')
                return
            else:
                write(escaped(quote))
        else:
            write(escaped(character))
            yield from source.pass_run(_CONTROL, lambda text: write(escaped(text)))


def _ends_string(source: Source, *, end_tag: str, is_key: bool) -> Reading[bool]:
    """Whether a quote that was just read closes its string, by what follows."""
    space, character = yield from source.peek_past_space()
    if not character:
        return True
    if character in ",}])" or (character == ":" and is_key):
        return True
    if character in "\"'{[" and "\n" in space:
        return True  # a comma was left out
    return bool(end_tag) and (yield from source.looks_at(end_tag, len(space)))


def _copy_escape(source: Source, write: Callable[[str], object]) -> Reading[None]:
    """Copies an escape from after its backslash; one that JSON lacks is put in JSON's terms."""
    character = yield from source.peek()
    if not character:
        raise Malformed(is_inside=True)
    source.take(1)
    if character in '"\\/bfnrt':
        write("\\" + character)
    elif character == "'":
        write("'")
    elif character == "u":
        yield from _copy_unicode(source, write)
    elif character in "xU":
        yield from _copy_python_code(source, write, character)
    elif character == "\n":
        write("\\n")
    else:
        write("\\\\" + escaped(character))


def _copy_python_code(source: Source, write: Callable[[str], object], kind: str) -> Reading[None]:
    """Copies ``\\x41`` or ``\\U0001f600``, which Python's strings have besides."""
    length = 2 if kind == "x" else 8
    digits = yield from _digits(source, length)
    code = int(digits, 16) if len(digits) == length else _NO_CODE
    if code < _NO_CODE:
        write("\\ufffd" if 0xD800 <= code < 0xE000 else escaped(chr(code)))
    else:
        write("\\\\" + kind + digits)


def _copy_unicode(source: Source, write: Callable[[str], object]) -> Reading[None]:
    """Copies a ``\\u`` escape, and the second of a pair with the first."""
    first = yield from _digits(source, 4)
    if not _is_half(first, 0xD800) or not (yield from source.expect("\\u")):
        write(_unicode_escape(first))
        return
    second = yield from _digits(source, 4)
    if _is_half(second, 0xDC00):
        write(f"\\u{first}\\u{second}")
    else:
        write(_unicode_escape(first) + _unicode_escape(second))


def _is_half(digits: str, first_code: int) -> bool:
    """Whether this is the half of a pair whose codes begin at ``first_code``."""
    return len(digits) == 4 and first_code <= int(digits, 16) < first_code + 0x400


def _unicode_escape(digits: str) -> str:
    """Half a pair becomes U+FFFD, since UTF-8 has no form for it."""
    if len(digits) < 4:
        return "\\\\u" + digits
    return "\\ufffd" if 0xD800 <= int(digits, 16) < 0xE000 else "\\u" + digits


def _digits(source: Source, count: int) -> Reading[str]:
    """Up to ``count`` hexadecimal digits."""
    digits = ""
    while len(digits) < count:
        character = yield from source.peek()
        if not character or not _HEX.fullmatch(character):
            break
        digits += source.take(1)
    return digits


def read_string(source: Source, quote: str, *, end_tag: str = "") -> Reading[str]:
    """The text of a string, read from after its opening ``quote``."""
    parts: list[str] = []
    yield from copy_string(source, quote, parts.append, end_tag=end_tag)
    return unquoted("".join(parts))


def unquoted(text: str) -> str:
    """The text of a JSON string."""
    return str(json.loads(text))
