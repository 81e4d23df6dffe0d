"""Names as Ollama's library has them, ``qwen3:4b``: which models may be meant by one.

A family, and behind the colon a tag: words such as a size or a quantisation. Only what leaves no
doubt counts. Pure.
"""

from __future__ import annotations

import re

_BETWEEN_WORDS = re.compile(r"[-_\s@:/]+")

# Words in a model's name that say how large it is, how it is stored, and that it follows
# instructions, as all models of that library do. Any other word makes it another model.
_SAYS_NO_OTHER = re.compile(
    r"[ae]?(?:\d+x)?\d+(?:\.\d+)?[bm]"  # 4b, 0.6b, 135m, 8x7b, a3b, e2b
    r"|\d+bit|bf16|fp?(?:8|16|32)|mxfp\d|nvfp\d|dwq|awq|gptq|qat|mlx|hf"
    r"|v\d+(?:\.\d+)*|\d{4}"  # of several versions the one that is here
    r"|l\d+"  # and of several depths
    r"|instruct|it|chat"
)
_QUANTISATION = re.compile(r"q(\d)(?:_\w+)?")  # q4_K_M, q8_0


def may_mean(wanted: str, name: str) -> bool:
    """Whether ``wanted`` is a name for the model that is called ``name`` here."""
    family, _, tag = wanted.casefold().partition(":")
    rest = _behind(family, _words(name))
    if rest is None:
        return False
    for word in tag.split("-") if tag not in ("", "latest") else ():
        word = _QUANTISATION.sub(r"\1bit", word) if _QUANTISATION.fullmatch(word) else word
        if word not in rest:
            return False
        rest.remove(word)
    return all(_SAYS_NO_OTHER.fullmatch(word) for word in rest)


def _behind(family: str, words: list[str]) -> list[str] | None:
    """The words behind those that make up the family's name, however either is hyphenated."""
    joined = "".join(_words(family))
    begun = ""
    for place, word in enumerate(words, 1):
        begun += word
        if begun == joined:
            return words[place:]
    return None


def _words(name: str) -> list[str]:
    return [word for word in _BETWEEN_WORDS.split(name.casefold()) if word]
