"""How each family of models marks its thoughts, and how to tell which one a model belongs to.

Knows names of tokens and texts of templates; knows nothing of tokenizers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """An answer of several messages, each with a header that says whom it is for.

        <|start|>assistant<|channel|>analysis<|message|>a thought<|end|>

    ``thoughts`` are the words of a header that make its message a thought; ``header_starts`` are
    what a header may begin with; ``asides`` are headers of what is said before a call. ``opening``
    stands before every header but the first, which the prompt opens.
    """

    opening: str
    header_starts: tuple[str, ...]
    message: str
    ends: tuple[str, ...]
    thoughts: tuple[str, ...]
    call_prefix: str = ""  # of a recipient that is a function
    asides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningFormat:
    """The tags of a thought. ``dropped`` are other tags that are never shown. ``closing`` is the
    text that ends a thought properly, for an engine that has to end one."""

    name: str
    begin: str
    end: str
    closing: str
    dropped: tuple[str, ...] = ()
    channels: Channels | None = None

    @property
    def end_in_form(self) -> str:
        """The end of a thought that a form follows; what its message is, the form says."""
        return self.end if self.channels is None else self.end + self.channels.opening

    @property
    def tags(self) -> tuple[str, ...]:
        """Texts whose special tokens must be made visible for the splitter to see them."""
        channels = self.channels
        if channels is None:
            return (self.begin, self.end, *self.dropped)
        return (*channels.header_starts, channels.message, *channels.ends, *self.dropped)


def _tags(begin: str, end: str, *, dropped: tuple[str, ...] = ()) -> ReasoningFormat:
    closing = f"\n{end}\n\n"
    return ReasoningFormat(name=begin, begin=begin, end=end, closing=closing, dropped=dropped)


HARMONY = ReasoningFormat(
    name="harmony",
    begin="<|channel|>analysis<|message|>",
    end="<|end|>",
    closing="<|end|><|start|>assistant<|channel|>final<|message|>",
    dropped=("<|constrain|>",),
    channels=Channels(
        opening="<|start|>assistant",
        header_starts=("<|start|>", "<|channel|>", " to=", "to="),
        message="<|message|>",
        ends=("<|end|>", "<|return|>", "<|call|>"),
        thoughts=("analysis",),
        call_prefix="to=functions.",
        asides=("<|channel|>commentary<|message|>",),
    ),
)

MUSE_SPARK = ReasoningFormat(
    name="muse_spark",
    begin="to=self<|message|>",
    end="<|eom|>",
    closing="<|eom|><|start|>assistant to=user<|message|>",
    channels=Channels(
        opening="<|start|>assistant",
        header_starts=("<|start|>", "to=", " to="),
        message="<|message|>",
        ends=("<|eom|>", "<|eot|>"),
        thoughts=("to=self",),
    ),
)

GEMMA4 = ReasoningFormat(
    name="gemma4",
    begin="<|channel>thought",
    end="<channel|>",
    closing="\n<channel|>",
)

KIMI_K3 = ReasoningFormat(
    name="kimi_k3",
    begin="<|open|>think<|sep|>",
    end="<|close|>think<|sep|>",
    closing="<|close|>think<|sep|>",
    dropped=(
        "<|open|>response<|sep|>",
        "<|close|>response<|sep|>",
        "<|close|>message<|sep|>",
        "<|end_of_msg|>",
    ),
)

THINK = _tags("<think>", "</think>")

# Most usual first; each is taken only where the model knows both tags.
TAGGED = (
    THINK,
    _tags("<longcat_think>", "</longcat_think>"),
    _tags("<|think:start|>", "<|think:end|>"),
    _tags("[THINK]", "[/THINK]"),
    _tags("<seed:think>", "</seed:think>"),
    _tags(
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        dropped=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    ),
    _tags("<|inner_prefix|>", "<|inner_suffix|>"),
    _tags("<thought>", "</thought>"),
)

ALL = (HARMONY, MUSE_SPARK, GEMMA4, KIMI_K3, *TAGGED)

XTML_TOKENS = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")


def _has_all(names: Container[str], wanted: Iterable[str]) -> bool:
    return all(name in names for name in wanted)


def find_reasoning_format(
    template_text: str | None, token_names: Container[str]
) -> ReasoningFormat | None:
    """The format of a model with this chat template (None: it has none, or one in Python) and
    these tokens; None for a model that does not think aloud."""
    template = template_text or ""
    if _has_all(token_names, ("<|message|>", "<|eom|>")) or "to=self<|message|>" in template:
        return MUSE_SPARK
    if _has_all(token_names, ("<|channel|>", "<|message|>", "<|end|>")):
        return HARMONY
    if _has_all(token_names, XTML_TOKENS):
        return KIMI_K3
    if _has_all(token_names, ("<|channel>", "<channel|>")):
        return GEMMA4
    for format in TAGGED:
        if _has_all(token_names, (format.begin, format.end)):
            return format
    for format in TAGGED:
        if format.begin in template and format.end in template:
            return format
    return None


def leaves_thought_open(
    format: ReasoningFormat, prompt: str, *, turn_start: int | None = None
) -> bool:
    """Whether an answer to ``prompt`` (a rendered template) begins inside a thought.

    Only the end of the prompt counts, never a tag that somebody wrote earlier. Where the answer's
    turn already has text (a reply to be continued), ``turn_start`` is where that turn begins.
    """
    if turn_start is None:
        return prompt.rstrip().endswith(format.begin)
    turn = prompt[turn_start:]
    begin = turn.rfind(format.begin)
    return begin >= 0 and turn.find(format.end, begin + len(format.begin)) < 0
