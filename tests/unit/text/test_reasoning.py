"""Thoughts: told apart whatever pieces they come in, with no tag left over, and counted."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.text.pieces import Content, Reasoning
from maxi_mlx.text.reasoning import (
    ReasoningFormat,
    ReasoningSplitter,
    ThinkingBudget,
    find_reasoning_format,
    leaves_thought_open,
)
from maxi_mlx.text.reasoning.formats import (
    ALL,
    GEMMA4,
    HARMONY,
    KIMI_K3,
    MUSE_SPARK,
    TAGGED,
    THINK,
)
from tests.models.templates import CHATML, CHATML_WITH_TOOLS


def split(
    format: ReasoningFormat, text: str, *, size: int = 1_000_000, **options: object
) -> tuple[str, str]:
    """The thought and the content of ``text``, each joined."""
    splitter = ReasoningSplitter(format, **options)  # type: ignore[arg-type]
    pieces = []
    for start in range(0, len(text), size):
        pieces += splitter.feed(text[start : start + size])
    pieces += splitter.finish()
    thought = "".join(piece.text for piece in pieces if isinstance(piece, Reasoning))
    content = "".join(piece.text for piece in pieces if isinstance(piece, Content))
    assert all(piece.text for piece in pieces)  # type: ignore[union-attr]
    return thought, content


CALL = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>'
CASES: dict[str, tuple[ReasoningFormat, str, dict[str, object], tuple[str, str]]] = {
    "think": (THINK, "<think>\na b\nc\n</think>\n\nThe answer.\n", {}, ("a b\nc", "The answer.\n")),
    "nothing thought": (THINK, "<think>\n\n</think>\n\nHi", {}, ("", "Hi")),
    "no tags": (THINK, "\n a < b, a </ b, <th", {}, ("", "\n a < b, a </ b, <th")),
    "only white space": (THINK, " \n", {}, ("", " \n")),
    "nothing": (THINK, "", {}, ("", "")),
    "white space first": (THINK, "\n<think>a</think>b", {}, ("a", "b")),
    "opened by the template": (THINK, "a\n</think>\n\nb", {"starts_open": True}, ("a", "b")),
    "opened twice": (THINK, "<think>\na</think>b", {"starts_open": True}, ("a", "b")),
    "never opened": (THINK, "a</think> b", {}, ("", "a b")),
    "never opened, at the start": (THINK, "\n</think>\n\nb", {}, ("", "b")),
    "unclosed": (THINK, "<think>\nI wonder, and </thin", {}, ("I wonder, and </thin", "")),
    "two thoughts": (THINK, "<think>a</think>\n<think>b</think>c", {}, ("a\nb", "c")),
    "a thought later": (THINK, "a <think>b</think> c", {}, ("b", "a c")),
    "a call in an open thought": (
        THINK,
        "a\n<tool_call>x",
        {"starts_open": True, "calls_begin": ("<tool_call>",)},
        ("a", "<tool_call>x"),
    ),
    "a call mentioned in a thought": (
        THINK,
        "a <tool_call>x</think>b",
        {"starts_open": True, "calls_begin": ("<tool_call>",)},
        ("a <tool_call>x", "b"),
    ),
    "a form after a thought": (
        THINK,
        "<think>a\n<tool_call></think>\n\nb <think>c</think>",
        {"thought_first": True, "has_form": True, "calls_begin": ("<tool_call>",)},
        ("a\n<tool_call>", "b <think>c</think>"),
    ),
    "a form without a thought": (
        THINK,
        " b <think>",
        {"thought_first": True, "has_form": True},
        ("", " b <think>"),
    ),
    "a form in an open thought": (
        THINK,
        "a</think>b</think>",
        {"thought_first": True, "has_form": True, "starts_open": True},
        ("a", "b</think>"),
    ),
    "a form, cut in its thought": (
        THINK,
        "<think>a</thi",
        {"thought_first": True, "has_form": True},
        ("a</thi", ""),
    ),
    "free text after a thought": (
        THINK,
        "<think>a\n<tool_call></think>b\n<think>c\n<tool_call>d",
        {"thought_first": True, "calls_begin": ("<tool_call>",)},
        ("a\n<tool_call>\nc", "b\n<tool_call>d"),
    ),
    "harmony, a form": (
        HARMONY,
        "<|channel|>final<|message|>a<|end|><|start|>b",
        {"has_form": True},
        ("", "a<|end|><|start|>b"),
    ),
    "harmony": (
        HARMONY,
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi "
        "there<|return|>",
        {},
        ("Hm.", "Hi there"),
    ),
    "harmony, preamble and call": (
        HARMONY,
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>"
        f"I look.<|end|><|start|>assistant{CALL}",
        {"keeps_calls": True},
        ("Hm.", 'I look.<|channel|>commentary to=functions.f<|message|>{"a": 1}<|call|>'),
    ),
    "harmony, recipient in the role": (
        HARMONY,
        ' to=functions.f<|channel|>commentary json<|message|>{"a": 1}',
        {"keeps_calls": True},
        ("", '<|channel|>commentary to=functions.f<|message|>{"a": 1}'),
    ),
    "harmony, a call nobody reads": (HARMONY, CALL, {}, ("", '{"a": 1}')),
    "harmony, thought goes on": (
        HARMONY,
        "on<|end|><|start|>assistant<|channel|>final<|message|>Hi",
        {"starts_open": True},
        ("on", "Hi"),
    ),
    "harmony, no end tag": (
        HARMONY,
        "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Hi",
        {},
        ("Hm.", "Hi"),
    ),
    "harmony, plain": (HARMONY, "to be or not", {}, ("", "to be or not")),
    "harmony, cut in a header": (HARMONY, "<|channel|>final", {}, ("", "")),
    "muse": (
        MUSE_SPARK,
        "to=self<|message|>hm<|eom|><|start|>assistant to=f<|message|><atem:function_calls><|eom|>"
        "<|start|>assistant to=user<|message|>Hi<|eot|>",
        {},
        ("hm", "<atem:function_calls>Hi"),
    ),
    "gemma": (GEMMA4, "<|channel>thought\nhm\n<channel|>Hi", {}, ("hm", "Hi")),
    "kimi k3": (
        KIMI_K3,
        "<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>Hi"
        "<|close|>response<|sep|><|close|>message<|sep|>",
        {},
        ("hm", "Hi"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_split(
    case: tuple[ReasoningFormat, str, dict[str, object], tuple[str, str]],
) -> None:
    format, text, options, expected = case
    for size in (1, 2, 3, 1000):
        assert split(format, text, size=size, **options) == expected, size
    for cut in range(len(text)):
        splitter = ReasoningSplitter(format, **options)  # type: ignore[arg-type]
        pieces = [*splitter.feed(text[:cut]), *splitter.feed(text[cut:]), *splitter.finish()]
        for kind, whole in zip((Reasoning, Content), expected, strict=True):
            assert "".join(piece.text for piece in pieces if isinstance(piece, kind)) == whole


@pytest.mark.parametrize("format", TAGGED, ids=lambda format: format.name)
def test_all_pairs_of_tags(format: ReasoningFormat) -> None:
    text = f"{format.begin}a < b{format.end}\n\nc{''.join(format.dropped)}"
    for size in (1, 2, 3, 1000):
        assert split(format, text, size=size) == ("a < b", "c")


@given(
    st.sampled_from(ALL),
    st.data(),
    st.integers(1, 5),
    st.booleans(),
)
def test_no_tag_in_the_content(
    format: ReasoningFormat, data: st.DataObject, size: int, starts_open: bool
) -> None:
    words = st.sampled_from([*format.tags, format.begin, "a", " ", "\n", "<", "é"])
    text = "".join(data.draw(st.lists(words, max_size=20)))
    whole = split(format, text, starts_open=starts_open)
    assert split(format, text, size=size, starts_open=starts_open) == whole
    if format.channels is None:
        assert not any(tag in whole[1] for tag in format.tags)


def test_held_back_is_only_what_may_be_a_tag() -> None:
    splitter = ReasoningSplitter(THINK)
    assert splitter.feed("a <") == [Content("a ")]
    assert splitter.num_held == 1
    assert splitter.feed("b") == [Content("<b")]
    assert splitter.feed("<think>x</thi") == [Reasoning("x")]
    assert splitter.feed("nk") == []
    assert splitter.num_held == 7
    assert splitter.feed(">y") == [Content("y")]


# -- counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "starts_open", "count"),
    [
        (["<think>", "\n", "a", "\n", "</think>", "\n\n", "b"], False, 5),
        (["<", "think", ">", "a", "</", "think", ">", "b"], False, 7),
        (["a", "", "b", "</think>", "c"], True, 4),
        (["a", "b"], False, 0),
        (["a", "<thi"], True, 2),
        (["<think>", "a", "", ""], False, 4),
    ],
)
def test_tokens_of_a_thought_are_counted(tokens: list[str], starts_open: bool, count: int) -> None:
    splitter = ReasoningSplitter(THINK, starts_open=starts_open)
    for token in tokens:
        splitter.feed(token)
    splitter.finish()
    assert splitter.num_reasoning_tokens == count


@pytest.mark.parametrize(
    ("budget", "tokens", "used_up_after"),
    [
        (5, ["<think>", "a", "a", "a", "a"], 4),  # 4 tokens, and room for the end
        (2, ["a", "a", "a", "<think>"], 4),
        (9, ["<think>", "a", "</think>", *"aaaaaaa"], None),
        (6, ["x<th", "ink>", "a", "a", "a", "a"], 5),
        (6, ["<think", ".", ">", *"aaaaaaaa"], None),
        (9, ["<think>\n", "a", "b.</", "think>\n\n", *"aaaaaaaa"], None),
        (4, ["</think>", "<think>", "", "a", "a"], 4),
        (3, [*"<think>", "a"], 7),
    ],
    ids=str,
)
def test_budget(budget: int, tokens: list[str], used_up_after: int | None) -> None:
    machine = ThinkingBudget(budget, begin=b"<think>", end=b"</think>", num_end_tokens=1)
    used_up = [i for i, token in enumerate(tokens, 1) if machine.feed(token.encode())]
    assert (used_up[0] if used_up else None) == used_up_after


def test_no_budget_at_all() -> None:
    def budget(**more: bool) -> ThinkingBudget:
        return ThinkingBudget(0, begin=b"<think>", end=b"</think>", num_end_tokens=1, **more)

    assert budget(starts_open=True).is_used_up
    machine = budget()
    assert not machine.is_used_up
    tokens = (b"a", b"<think>", b"a", b"</think>", b"a")
    assert [machine.feed(token) for token in tokens] == [False, True, True, False, False]


def test_a_thought_that_was_closed_is_over_though_its_tag_was_not_seen() -> None:
    machine = ThinkingBudget(1, begin=b"(", end=b")", num_end_tokens=1, starts_open=True)
    assert machine.is_used_up
    machine.end()
    assert not machine.is_used_up


@pytest.mark.parametrize("format", ALL, ids=lambda format: format.name)
def test_the_closing_text_closes(format: ReasoningFormat) -> None:
    for size in (1, 1000):
        text = f"{format.begin}hm{format.closing}Hi"
        assert split(format, text, size=size) == ("hm", "Hi")
        assert split(format, f"hm{format.closing}Hi", size=size, starts_open=True) == ("hm", "Hi")


# -- detection -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "tokens", "expected"),
    [
        (None, {"<think>", "</think>"}, THINK),
        (CHATML_WITH_TOOLS, set(), THINK),
        (CHATML, {"<think>"}, None),
        (CHATML, set(), None),
        (None, set(), None),
        (None, {"[THINK]", "[/THINK]"}, TAGGED[3]),
        (None, {"<|channel|>", "<|message|>", "<|end|>", "<think>"}, HARMONY),
        (None, {"<|channel>", "<channel|>"}, GEMMA4),
        (None, {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}, KIMI_K3),
        ("to=self<|message|>", set(), MUSE_SPARK),
    ],
)
def test_detection(
    template: str | None, tokens: set[str], expected: ReasoningFormat | None
) -> None:
    assert find_reasoning_format(template, tokens) is expected


def test_whether_the_prompt_leaves_a_thought_open() -> None:
    user = "<|im_start|>user\nWhat does <think> mean? <think><|im_end|>\n<|im_start|>assistant\n"
    assert not leaves_thought_open(THINK, user)
    assert leaves_thought_open(THINK, user + "<think>\n")
    assert not leaves_thought_open(THINK, user + "<think>\n\n</think>\n\n")
    turn_start = len(user)
    assert not leaves_thought_open(THINK, user + "so", turn_start=turn_start)
    assert leaves_thought_open(THINK, user + "<think>so far", turn_start=turn_start)
    assert not leaves_thought_open(THINK, user + "<think>a</think>b", turn_start=turn_start)


def test_no_tag_lies_inside_another() -> None:
    for format in ALL:
        for word, other in itertools.permutations(dict.fromkeys(format.tags), 2):
            assert word not in other or format.channels is not None
