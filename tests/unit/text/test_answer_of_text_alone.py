"""Tokens to text: no character split, none lost, log-probabilities beside their text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.core.events import TextDelta, TokenLogprob
from maxi_mlx.text.answer import AnswerEvent, AnswerText
from maxi_mlx.text.stop_strings import StopStrings
from maxi_mlx.text.vocabulary import Vocabulary

SPECIAL = 256
# Token i is byte i; 256 is special; then some longer ones.
BYTES = Vocabulary(
    [*(bytes([i]) for i in range(256)), b"<|end|>", b" hello", " über".encode()],
    special_ids={SPECIAL},
    strips_first_space=True,
)


class Plain(AnswerText):
    """Without machines a step tells of one piece of text at the most."""

    def feed(  # type: ignore[override]
        self, token_id: int, logprob: TokenLogprob | None = None
    ) -> TextDelta | None:
        return only(super().feed(token_id, logprob))

    def finish(self, *, is_cut: bool = False) -> TextDelta | None:  # type: ignore[override]
        return only(super().finish(is_cut=is_cut))


def only(events: list[AnswerEvent]) -> TextDelta | None:
    """What all of them say, as one."""
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert deltas == events
    if not deltas:
        return None
    tokens = tuple(token for delta in deltas for token in delta.tokens)
    return TextDelta(deltas[0].choice, "".join(delta.text for delta in deltas), tokens)


def assembler(*stops: str, strip: bool = False) -> Plain:
    return Plain(BYTES, StopStrings(stops), choice=3, strip_first_space=strip)


def feed(machine: Plain, token_ids: list[int]) -> list[str]:
    """The text of every delta, until a stop string."""
    shown = []
    for token_id in token_ids:
        delta = machine.feed(token_id)
        if delta is not None:
            shown.append(delta.text)
        if machine.stop_string is not None:
            return shown
    tail = machine.finish()
    return [*shown, tail.text] if tail is not None else shown


def test_a_character_is_shown_whole_with_its_last_byte() -> None:
    assert feed(assembler(), list("a語b".encode())) == ["a", "語", "b"]


def test_a_byte_that_never_completes_is_one_replacement_and_then_on() -> None:
    assert "".join(feed(assembler(), [0x61, 0xE8, 0x62, 0x63])) == "a\ufffdbc"
    assert "".join(feed(assembler(), [0xFF, 0x62])) == "\ufffdb"


def test_half_a_character_at_the_end_is_one_replacement() -> None:
    assert feed(assembler(), [0x61, 0xF0, 0x9F]) == ["a", "\ufffd"]


def test_half_a_character_that_was_cut_off_is_nothing() -> None:
    machine = assembler()
    for byte in (0x61, 0xF0, 0x9F):
        machine.feed(byte)
    assert machine.finish(is_cut=True) is None


def test_special_tokens_add_no_text() -> None:
    assert "".join(feed(assembler(), [0x61, SPECIAL, 0x62])) == "ab"


@pytest.mark.parametrize(("strip", "text"), [(True, "hello hello"), (False, " hello hello")])
def test_the_first_space_is_dropped_only_when_asked(strip: bool, text: str) -> None:
    assert "".join(feed(assembler(strip=strip), [257, 257])) == text


def test_ids_beyond_the_table_add_nothing() -> None:
    assert feed(assembler(), [0x61, 9999]) == ["a"]


def test_a_stop_string_ends_it_mid_token() -> None:
    machine = assembler("llo h")
    assert feed(machine, [257, 257]) == [" he"]
    assert machine.stop_string == "llo h"
    assert machine.finish() is None


def test_a_stop_string_may_be_met_in_what_was_held_back() -> None:
    machine = assembler("\ufffd")
    assert feed(machine, [0x61, 0xE8]) == ["a"]
    assert machine.stop_string == "\ufffd"


def logprob(token_id: int) -> TokenLogprob:
    data = BYTES.data(token_id)
    return TokenLogprob(token_id, data.decode(errors="replace"), data, -1.0)


def deltas_with_logprobs(machine: Plain, token_ids: list[int]) -> list[TextDelta]:
    deltas = []
    for token_id in token_ids:
        delta = machine.feed(token_id, logprob(token_id))
        if delta is not None:
            deltas.append(delta)
        if machine.stop_string is not None:
            return deltas
    tail = machine.finish()
    return [*deltas, tail] if tail is not None else deltas


def test_tokens_ride_on_the_delta_that_shows_their_first_character() -> None:
    shown = deltas_with_logprobs(assembler("END"), list(b"xENa"))
    assert [(d.text, [t.token_id for t in d.tokens]) for d in shown] == [
        ("x", [0x78]),
        ("ENa", [0x45, 0x4E, 0x61]),
    ]


def test_tokens_of_a_stop_string_are_not_part_of_the_answer() -> None:
    shown = deltas_with_logprobs(assembler("lo"), [0x78, *b" lo"])
    assert [t.token_id for d in shown for t in d.tokens] == [0x78, 0x20]


@given(st.lists(st.integers(0, 258), max_size=30))
def test_the_bytes_of_the_tokens_join_into_the_text(token_ids: list[int]) -> None:
    shown = deltas_with_logprobs(assembler(), token_ids)
    tokens = [token.token_id for delta in shown for token in delta.tokens]
    assert tokens == token_ids
    data = b"".join(BYTES.visible(token_id) for token_id in token_ids)
    assert "".join(delta.text for delta in shown) == data.decode(errors="replace")


@given(st.text(max_size=40), st.lists(st.text(min_size=1, max_size=4), max_size=3))
def test_text_streamed_equals_text_cut_whole(text: str, stops: list[str]) -> None:
    data = text.encode("utf-8", errors="ignore")
    clean = data.decode()
    stops = [stop.encode(errors="ignore").decode() for stop in stops]
    stops = [stop for stop in stops if stop]
    machine = assembler(*stops)
    whole = StopStrings(stops).matcher()
    expected = whole.feed(clean)
    if whole.matched is None:
        expected += whole.flush()
    assert "".join(feed(machine, list(data))) == expected
    assert machine.stop_string == whole.matched
