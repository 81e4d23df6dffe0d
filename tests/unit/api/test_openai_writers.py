"""What holds for any stream of events: the chunks are well formed, the openai package reads them,
and joined they say the same as the answer in one piece."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from openai._streaming import SSEDecoder
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from maxi_mlx.api.openai import (
    KEEP_ALIVE,
    Answer,
    ChatAnswer,
    ChatStreamWriter,
    CompletionAnswer,
    CompletionStreamWriter,
    StreamWriter,
)
from maxi_mlx.core.errors import EngineFailed, Overloaded
from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    TextDelta,
    TokenLogprob,
    Usage,
)

from .event_streams import CALLS, PLAIN, TIMINGS, TOKENS, event_streams

HEAD: dict[str, Any] = {"id": "x-1", "created": 1700000000, "model": "tiny"}
ANY_STREAM = settings(max_examples=60)
LOGPROBS = pytest.mark.parametrize("logprobs", [False, True], ids=["plain", "logprobs"])


def stream(writer: StreamWriter, events: list[Event]) -> bytes:
    return writer.start() + b"".join(writer.event(event) for event in events)


def body(answer: Answer, events: list[Event]) -> bytes:
    for event in events:
        answer.feed(event)
    return answer.body()


def chunks(sent: bytes) -> list[Any]:
    """The chunks before ``[DONE]``, which has to be the last."""
    *frames, rest = sent.split(b"\n\n")
    assert rest == b""
    assert frames.pop() == b"data: [DONE]"
    assert all(frame.startswith(b"data: ") for frame in frames)
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


@LOGPROBS
@ANY_STREAM
@given(case=event_streams(is_chat=True))
@pytest.mark.clients(3, 6, 7, 8, 10, 16, 22)
def test_chunks_are_well_formed(logprobs: bool, case: tuple[int, list[Event]]) -> None:
    num_choices, events = case
    for kind, name in (
        (ChatStreamWriter, "chat.completion.chunk"),
        (CompletionStreamWriter, "text_completion"),
    ):
        options: dict[str, Any] = {
            "num_choices": num_choices,
            "logprobs": logprobs,
            "include_usage": True,
        }
        sent = stream(kind(**HEAD, **options), events)
        # Every blank line ends an event, whatever the reader takes for a line end.
        assert len(sent.decode().splitlines()) == 2 * sent.count(b"\n\n")
        *content, usage = chunks(sent)
        assert all(chunk.items() >= {**HEAD, "object": name}.items() for chunk in [*content, usage])
        assert usage["choices"] == []
        assert all("usage" not in chunk for chunk in content)
        reasons = defaultdict(list)
        for chunk in content:
            (choice,) = chunk["choices"]
            reasons[choice["index"]].append(choice["finish_reason"])
        assert sorted(reasons) == list(range(num_choices))
        for given_reasons in reasons.values():
            assert given_reasons[-1] in ("stop", "length", "tool_calls")
            assert set(given_reasons[:-1]) <= {None}


def calls_of(message: Any) -> list[tuple[str, str, str]]:
    return [
        (call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []
    ]


@LOGPROBS
@ANY_STREAM
@given(case=event_streams(is_chat=True))
@pytest.mark.clients(1, 2, 5, 8, 9, 11, 20, 63)
def test_a_chat_stream_joins_to_the_whole(logprobs: bool, case: tuple[int, list[Event]]) -> None:
    """Joined by the openai package, from bytes that it reads itself and validates strictly."""
    num_choices, events = case
    options: dict[str, Any] = {
        "num_choices": num_choices,
        "logprobs": logprobs,
        "system_fingerprint": "fp",
    }
    sent = stream(ChatStreamWriter(**HEAD, **options, include_usage=True), events)
    whole = ChatCompletion.model_validate_json(
        body(ChatAnswer(**HEAD, **options), events), strict=True
    )
    state = ChatCompletionStreamState()
    roles = defaultdict(list)
    for event in SSEDecoder().iter_bytes(iter([sent])):
        if event.data != "[DONE]":
            chunk = ChatCompletionChunk.model_validate_json(event.data, strict=True)
            for streamed in chunk.choices:
                roles[streamed.index].append(streamed.delta.role)
            state.handle_chunk(chunk)
    joined = state.current_completion_snapshot
    assert [seen[0] for seen in roles.values()] == ["assistant"] * num_choices
    assert all(set(seen[1:]) <= {None} for seen in roles.values())
    assert joined.usage == whole.usage
    assert (joined.id, joined.created, joined.model) == (whole.id, whole.created, whole.model)
    assert joined.system_fingerprint == whole.system_fingerprint
    for index, choice in enumerate(whole.choices):
        part = joined.choices[index]
        assert part.index == choice.index == index
        assert (part.message.content or "") == (choice.message.content or "")
        assert calls_of(part.message) == calls_of(choice.message)
        for name in ("reasoning", "reasoning_content"):
            assert getattr(part.message, name, "") == getattr(choice.message, name, "")
        assert part.finish_reason == choice.finish_reason
        tokens = choice.logprobs.content if choice.logprobs else None
        assert (part.logprobs.content if part.logprobs else None) == (tokens or None)
        assert (choice.logprobs is not None) is logprobs


@LOGPROBS
@ANY_STREAM
@given(case=event_streams())
@pytest.mark.clients(45)
def test_a_completion_stream_joins_to_the_whole(
    logprobs: bool, case: tuple[int, list[Event]]
) -> None:
    num_choices, events = case
    options: dict[str, Any] = {"num_choices": num_choices, "logprobs": logprobs}
    sent = stream(CompletionStreamWriter(**HEAD, **options, include_usage=True), events)
    whole = json.loads(body(CompletionAnswer(**HEAD, **options), events))
    Completion.model_validate(whole, strict=True)
    *content, usage = chunks(sent)
    assert usage["usage"] == whole["usage"]
    empty: dict[str, list[Any]] = {
        "tokens": [],
        "token_logprobs": [],
        "top_logprobs": [],
        "text_offset": [],
    }
    for expected in whole["choices"]:
        joined: dict[str, Any] = {"text": "", "logprobs": None, "finish_reason": None}
        lists = {name: list(values) for name, values in empty.items()}
        for chunk in content:
            (choice,) = chunk["choices"]
            if choice["index"] != expected["index"]:
                continue
            # The package's type has no null here; OpenAI's own server sends it all the same.
            strict = {**chunk, "choices": [{**choice, "finish_reason": "stop"}]}
            Completion.model_validate(strict, strict=True)
            joined["text"] += choice["text"]
            joined["finish_reason"] = choice["finish_reason"]
            for name, values in (choice["logprobs"] or empty).items():
                lists[name] += values
        if logprobs:
            joined["logprobs"] = lists
        assert joined | {"index": expected["index"]} == expected


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.clients(16)
def test_a_stream_in_pieces_reads_the_same(size: int) -> None:
    sent = KEEP_ALIVE + stream(ChatStreamWriter(**HEAD), PLAIN)
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    read = [event.data for event in SSEDecoder().iter_bytes(iter(pieces))]
    assert read == [event.data for event in SSEDecoder().iter_bytes(iter([sent]))]
    texts = [json.loads(data)["choices"][0]["delta"].get("content", "") for data in read[:-1]]
    assert "".join(texts) == 'Say "hi"\n😀\u2028é'


@pytest.mark.clients(15)
def test_keep_alive_is_a_comment() -> None:
    assert KEEP_ALIVE == b": keep-alive\n\n"


@pytest.mark.parametrize("kind", [ChatStreamWriter, CompletionStreamWriter])
@pytest.mark.parametrize(
    "event",
    [
        Started("tiny", 3),
        PrefillProgress(1, 2),
        TextDelta(0, ""),
        TextDelta(0, "", (TokenLogprob(1, "a", b"a", -1.0),)),
    ],
    ids=["started", "prefill", "nothing new", "a token nobody asked for"],
)
def test_events_without_a_chunk(
    kind: type[ChatStreamWriter | CompletionStreamWriter], event: Event
) -> None:
    assert kind(**HEAD).event(event) == b""


@pytest.mark.parametrize("kind", [ChatStreamWriter, CompletionStreamWriter])
@pytest.mark.clients(6)
def test_usage_only_when_asked(kind: type[ChatStreamWriter | CompletionStreamWriter]) -> None:
    completed = Completed(Usage(3, 4, 2), TIMINGS)
    assert kind(**HEAD).event(completed) == b"data: [DONE]\n\n"
    (chunk,) = chunks(kind(**HEAD, include_usage=True).event(completed))
    assert chunk["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


@pytest.mark.clients(63, 64)
def test_the_keys_of_a_chat_answer() -> None:
    whole = json.loads(body(ChatAnswer(**HEAD), PLAIN))
    assert set(whole) == {"id", "object", "created", "model", "system_fingerprint"} | {
        "choices",
        "usage",
    }
    assert whole["system_fingerprint"] is None
    assert whole["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": 'Say "hi"\n😀\u2028é',
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}


def test_offsets_count_characters_not_bytes() -> None:
    answer = json.loads(body(CompletionAnswer(**HEAD, num_choices=2, logprobs=True), TOKENS))
    assert answer["choices"][1]["text"] == "café!"
    assert answer["choices"][1]["logprobs"]["text_offset"] == [0, 3, 3, 4]


def test_of_alternatives_that_look_alike_the_likelier_stays() -> None:
    token = TokenLogprob(1, "a", b"a", -3.0)
    likelier = TokenLogprob(2, "a", b"a", -1.0)
    for chosen, other in ((token, likelier), (likelier, token)):
        shown = TokenLogprob(9, "a", b"a", chosen.logprob, (other,))  # type: ignore[arg-type]
        events: list[Event] = [TextDelta(0, "a", (shown,)), *PLAIN[-2:]]
        answer = json.loads(body(CompletionAnswer(**HEAD, logprobs=True), events))
        assert answer["choices"][0]["logprobs"]["top_logprobs"] == [{"a": -1.0}]


@pytest.mark.parametrize(
    ("logprob", "written"),
    [
        (-0.5, -0.5),
        (float("-inf"), -9999.0),
        (float("nan"), -9999.0),
        (-1e300, -9999.0),
        (float("inf"), 0.0),
        (1e-7, 0.0),
    ],
    ids=str,
)
def test_logprobs_are_numbers_in_json(logprob: float, written: float) -> None:
    delta = TextDelta(0, "a", (TokenLogprob(1, "a", b"a", logprob),))
    (frame,) = ChatStreamWriter(**HEAD, logprobs=True).event(delta).split(b"\n\n")[:-1]
    choice = json.loads(frame.removeprefix(b"data: "))["choices"][0]
    assert choice["logprobs"]["content"] == [
        {"token": "a", "logprob": written, "bytes": [97], "top_logprobs": []}
    ]


@pytest.mark.parametrize("kind", [ChatAnswer, CompletionAnswer])
def test_a_failed_answer_raises_its_error(kind: type[ChatAnswer | CompletionAnswer]) -> None:
    error = Overloaded("Too many.")
    with pytest.raises(Overloaded) as caught:
        kind(**HEAD).feed(Failed(error))
    assert caught.value is error


@pytest.mark.parametrize("kind", [ChatAnswer, CompletionAnswer])
@pytest.mark.parametrize(
    "events",
    [
        [],
        [TextDelta(0, "a")],
        [Finished(0, "stop", None, 1)],
        [Completed(Usage(1, 1), TIMINGS)],
    ],
    ids=["nothing", "text", "finished", "no reason"],
)
def test_half_an_answer_is_an_error(
    kind: type[ChatAnswer | CompletionAnswer], events: list[Event]
) -> None:
    with pytest.raises(EngineFailed, match="before the answer was complete"):
        body(kind(**HEAD), events)


def test_content_is_null_where_there_are_just_calls() -> None:
    calls = [event for event in CALLS if not isinstance(event, TextDelta)]
    message = json.loads(body(ChatAnswer(**HEAD), calls))["choices"][0]["message"]
    assert message["content"] is None
    assert len(message["tool_calls"]) == 2
    silent = json.loads(body(ChatAnswer(**HEAD), PLAIN[-2:]))["choices"][0]["message"]
    assert silent["content"] == ""


@pytest.mark.clients(9)
def test_a_delta_carries_one_kind_of_thing() -> None:
    for chunk in chunks(stream(ChatStreamWriter(**HEAD), CALLS)):
        delta = dict(chunk["choices"][0]["delta"])
        if delta.pop("role", None):
            continue
        assert set(delta) in (
            set(),
            {"content"},
            {"tool_calls"},
            {"reasoning", "reasoning_content"},
        )


@pytest.mark.clients(1, 2)
def test_the_first_fragment_names_the_call_and_later_ones_do_not() -> None:
    sent = chunks(stream(ChatStreamWriter(**HEAD), CALLS))
    deltas = [chunk["choices"][0]["delta"] for chunk in sent]
    fragments = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert fragments == [
        {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": ""},
        },
        {"index": 0, "function": {"arguments": '{"city": '}},
        {"index": 0, "function": {"arguments": '"Zürich"}'}},
        {
            "index": 1,
            "id": "call_2",
            "type": "function",
            "function": {"name": "get_time", "arguments": ""},
        },
        {"index": 1, "function": {"arguments": "{}"}},
    ]


def test_functions_are_answered_in_the_older_form() -> None:
    sent = chunks(stream(ChatStreamWriter(**HEAD, legacy_functions=True), CALLS))
    deltas = [chunk["choices"][0]["delta"] for chunk in sent]
    calls = [delta["function_call"] for delta in deltas if "function_call" in delta]
    assert calls[0] == {"name": "get_weather", "arguments": ""}
    assert all(set(call) == {"arguments"} for call in calls[1:])
    assert not any("tool_calls" in delta for delta in deltas)
    whole = json.loads(body(ChatAnswer(**HEAD, legacy_functions=True), CALLS))["choices"][0]
    call = {"name": "get_weather", "arguments": '{"city": "Zürich"}'}
    assert whole["message"]["function_call"] == call
    assert "tool_calls" not in whole["message"]
    assert "".join(call["arguments"] for call in calls) == call["arguments"]
    assert sent[-1]["choices"][0]["finish_reason"] == "function_call" == whole["finish_reason"]


def test_reasoning_tokens_are_counted() -> None:
    usage = json.loads(body(ChatAnswer(**HEAD), CALLS))["usage"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 7}
