"""Streams of events that the writers' tests share: two written out, and any (by hypothesis)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    PrefillProgress,
    ReasoningDelta,
    Started,
    TextDelta,
    Timings,
    TokenLogprob,
    ToolCallDelta,
    ToolCallStart,
    TopLogprob,
    Usage,
)

TIMINGS = Timings(queue_s=0.0, prefill_s=0.1, first_token_s=0.1, decode_s=0.2)

# A quote, a newline, an emoji, and a line end that JSON allows in a string.
PLAIN: list[Event] = [
    Started("tiny", 12),
    PrefillProgress(8, 12),
    TextDelta(0, "Say"),
    TextDelta(0, ' "hi"\n'),
    TextDelta(0, "😀\u2028é"),
    Finished(0, "stop", "END", 5),
    Completed(Usage(prompt_tokens=12, completion_tokens=5, cached_tokens=8), TIMINGS),
]

# Two answers that interleave. "é" comes as two tokens; a logprob that JSON can't hold.
TOKENS: list[Event] = [
    Started("tiny", 3),
    TextDelta(
        0,
        "A",
        (TokenLogprob(1, "A", b"A", -0.5, (TopLogprob(1, "A", b"A", -0.5),)),),
    ),
    TextDelta(
        1,
        "caf",
        (TokenLogprob(2, "caf", b"caf", -0.25, (TopLogprob(3, "x", b"x", float("-inf")),)),),
    ),
    TextDelta(1, "", (TokenLogprob(4, "\ufffd", b"\xc3", -1.0),)),
    TextDelta(1, "é", (TokenLogprob(5, "\ufffd", b"\xa9", float("nan")),)),
    Finished(0, "length", None, 1),
    TextDelta(1, "!", (TokenLogprob(6, "!", b"!", -2.0),)),
    Finished(1, "stop", None, 4),
    Completed(Usage(prompt_tokens=3, completion_tokens=5), TIMINGS),
]

# A thought, words before the first call, two calls, and then an end by the model itself.
CALLS: list[Event] = [
    Started("tiny", 9),
    ReasoningDelta(0, "Let me "),
    ReasoningDelta(0, "see.\n"),
    TextDelta(0, "Looking."),
    ToolCallStart(0, 0, "call_1", "get_weather"),
    ToolCallDelta(0, 0, '{"city": '),
    ToolCallDelta(0, 0, '"Zürich"}'),
    ToolCallStart(0, 1, "call_2", "get_time"),
    ToolCallDelta(0, 1, "{}"),
    Finished(0, "tool_calls", None, 40),
    Completed(Usage(prompt_tokens=9, completion_tokens=40, reasoning_tokens=7), TIMINGS),
]

BROKEN: list[Event] = [
    Started("tiny", 3),
    TextDelta(0, "Hal"),
    Failed(EngineFailed('The device said "no".\nTry again.')),
]

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_logprobs = st.floats(max_value=0) | st.just(float("nan"))
_tops = st.builds(TopLogprob, st.integers(0, 99), _texts, st.binary(max_size=4), _logprobs)
_tokens = st.builds(
    TokenLogprob,
    st.integers(0, 99),
    _texts,
    st.binary(max_size=4),
    _logprobs,
    st.lists(_tops, max_size=3).map(tuple),
)


_steps = st.tuples(
    st.integers(0, 2),  # the choice
    st.one_of(
        st.builds(PrefillProgress, st.just(1), st.just(2)),
        st.builds(TextDelta, st.just(0), _texts, st.lists(_tokens, max_size=3).map(tuple)),
        st.builds(Finished, st.just(0), st.sampled_from(["stop", "length"]), st.none(), st.just(1)),
    ),
)
_chat_steps = _steps | st.tuples(
    st.integers(0, 2),
    st.one_of(
        st.builds(ReasoningDelta, st.just(0), _texts),
        st.builds(ToolCallStart, st.just(0), st.just(0), st.just(""), _texts),
        st.builds(ToolCallDelta, st.just(0), st.just(0), _texts),
        st.builds(Finished, st.just(0), st.just("tool_calls"), st.none(), st.just(1)),
    ),
)


@st.composite
def event_streams(draw: st.DrawFn, is_chat: bool = False) -> tuple[int, list[Event]]:
    """The number of choices, and a whole good stream in which their deltas interleave; in a chat
    with thoughts and calls."""
    running = list(range(draw(st.integers(1, 3))))
    num_choices = len(running)
    num_calls = [0] * num_choices
    events: list[Event] = [Started("tiny", 3)]
    for choice, event in draw(st.lists(_chat_steps if is_chat else _steps, max_size=10)):
        if isinstance(event, PrefillProgress):
            events.append(event)
            continue
        if choice not in running:
            continue
        match event:
            case ToolCallStart():
                number = num_calls[choice]
                num_calls[choice] += 1
                events.append(ToolCallStart(choice, number, f"call_{choice}_{number}", event.name))
            case ToolCallDelta():
                if num_calls[choice]:
                    events.append(ToolCallDelta(choice, num_calls[choice] - 1, event.arguments))
            case _:
                events.append(replace(event, choice=choice))
        if isinstance(event, Finished):
            running.remove(choice)
    events += [Finished(choice, "length", None, 1) for choice in running]
    counts = draw(st.tuples(*(st.integers(1, 99),) * 4))
    return num_choices, [*events, Completed(Usage(*counts), TIMINGS)]
