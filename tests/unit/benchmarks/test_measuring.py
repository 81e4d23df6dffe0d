"""The load client's machines: prompts, reading of answers, figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring.client import Reply
from measuring.figures import Spread, aligned, percentile, spread, summarise, table
from measuring.prompts import make_prompt
from measuring.wire import event_data, read_answer


def test_prompts_differ_from_their_first_characters_on() -> None:
    prompts = [make_prompt(index, num_tokens=50, seed=3) for index in range(200)]
    assert len({prompt[:10] for prompt in prompts}) == 200


def test_a_prompt_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    assert make_prompt(4, num_tokens=50, seed=3) == make_prompt(4, num_tokens=50, seed=3)
    assert make_prompt(4, num_tokens=50, seed=3) != make_prompt(4, num_tokens=50, seed=4)


def test_the_same_prompt_can_be_asked_for() -> None:
    prompts = {make_prompt(index, num_tokens=50, seed=3, is_same=True) for index in range(5)}
    assert len(prompts) == 1


@pytest.mark.parametrize(("num_tokens", "num_words"), [(1, 9), (50, 43), (1000, 898)])
def test_a_prompt_has_about_the_length_asked_for(num_tokens: int, num_words: int) -> None:
    assert len(make_prompt(0, num_tokens=num_tokens, seed=0).split()) == num_words


@pytest.mark.parametrize(
    ("line", "data"),
    [
        pytest.param(b'data: {"a":1}\n', b'{"a":1}', id="data"),
        pytest.param(b"data:[DONE]\r\n", b"[DONE]", id="no space, CRLF"),
        pytest.param(b": keep-alive\n", None, id="comment"),
        pytest.param(b"\n", None, id="blank"),
        pytest.param(b"event: message\n", None, id="another field"),
    ],
)
def test_event_lines(line: bytes, data: bytes | None) -> None:
    assert event_data(line) == data


@pytest.mark.parametrize(
    ("data", "has_text", "is_finished"),
    [
        (b'{"choices":[{"delta":{"role":"assistant","content":""}}]}', False, False),
        (b'{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}', True, False),
        (b'{"choices":[{"delta":{"reasoning_content":"a"}}]}', True, False),
        (b'{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}', True, False),
        (b'{"choices":[{"delta":{},"finish_reason":"stop"}]}', False, True),
        (b'{"choices":[{"text":"a","finish_reason":"length"}]}', True, True),
        (b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}', True, True),
        (b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}', False, False),
    ],
    ids=["role", "text", "thought", "call", "finish", "completion", "whole", "usage"],
)
def test_what_an_answer_brings(data: bytes, has_text: bool, is_finished: bool) -> None:
    answer = read_answer(data)
    assert (answer.has_text, answer.is_finished) == (has_text, is_finished)


@pytest.mark.parametrize(
    ("values", "share", "result"),
    [([5.0], 0.95, 5.0), ([1.0, 2.0], 0.5, 1.5), ([3.0, 1.0, 2.0], 0.5, 2.0), ([0, 10], 0.95, 9.5)],
)
def test_percentiles(values: list[float], share: float, result: float) -> None:
    assert percentile(values, share) == pytest.approx(result)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_lies_within_the_values_and_grows(values: list[float], share: float) -> None:
    value = percentile(values, share)
    assert min(values) <= value <= max(values) * (1 + 1e-9)
    assert percentile(values, 0.0) <= value + 1e-6


def reply(begun: float, times: list[float], ended: float, *, tokens: int | None) -> Reply:
    return Reply(
        begun_s=begun,
        ended_s=ended,
        chunk_times_s=times,
        prompt_tokens=None if tokens is None else 7,
        usage_tokens=tokens,
    )


def test_figures_of_a_streamed_level() -> None:
    replies = [
        reply(0.0, [0.5, 0.75, 1.5], 1.5, tokens=5),
        reply(0.0, [1.0, 1.25], 2.0, tokens=3),
        Reply(begun_s=0.0, ended_s=9.0, error="HTTP 429"),
        Reply(begun_s=0.0, ended_s=9.0, error="timeout"),
        Reply(begun_s=0.0, ended_s=9.0, error="HTTP 429"),
    ]
    figures = summarise(replies, concurrency=5, wall_s=4.0, streams=True)
    assert figures.num_requests == 5
    assert figures.errors == {"HTTP 429": 2, "timeout": 1}
    assert figures.num_errors == 3
    assert figures.completion_tokens == 8
    assert figures.counted_by == "usage"
    assert figures.prompt_tokens == 7
    assert figures.first_token_s == Spread(0.75, 0.975, 1.0)
    assert figures.gap_s == Spread(0.25, 0.7, 0.75)
    assert figures.latency_s is not None
    assert figures.latency_s.max == 2.0
    assert figures.stream_tokens_per_s == pytest.approx((4 / 1.0 + 2 / 1.0) / 2)
    assert figures.total_tokens_per_s == 2.0
    assert figures.requests_per_s == 0.5


def test_chunks_count_where_there_is_no_usage() -> None:
    figures = summarise(
        [reply(0.0, [0.5, 0.75, 1.0], 1.0, tokens=None)], concurrency=1, wall_s=1.0, streams=True
    )
    assert figures.completion_tokens == 3
    assert figures.counted_by == "chunks"
    assert "each of their chunks counts as one token" in table([figures])


def test_whole_answers_have_no_first_token_and_no_gaps() -> None:
    figures = summarise(
        [reply(0.0, [2.0], 2.0, tokens=10)], concurrency=1, wall_s=2.0, streams=False
    )
    assert (figures.first_token_s, figures.gap_s) == (None, None)
    assert figures.stream_tokens_per_s == 5.0


def test_a_level_of_nothing_but_errors_has_a_row_too() -> None:
    failed = Reply(begun_s=0.0, ended_s=1.0, error="timeout")
    lines = table([summarise([failed], concurrency=1, wall_s=1.0, streams=True)]).splitlines()
    assert lines[2].split() == ["1", "1", "1", *["-"] * 9, "0.0", "0.00"]
    assert lines[3] == "1 at once: 1 x timeout"


def test_no_values_have_no_spread() -> None:
    assert spread([]) is None


def test_columns_are_aligned_to_the_right() -> None:
    assert aligned([("a", "bb"), ("100", "2")]) == ["  a  bb", "100   2"]
