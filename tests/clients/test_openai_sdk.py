"""The official OpenAI SDK, which checks every answer against its types, gets exact answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.clients.conftest import Served
from tests.engine.asking import slowed
from tests.models.scripted import COMPLETIONS, COUNT, DIALOGUES

CAPITAL = DIALOGUES["capital"].reply
NO_END = {"0": -100, "2": -100}


def ask(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    return {"model": "scripted", "messages": DIALOGUES[name].messages, "temperature": 0, **more}


def make_client(served: Served, **more: Any) -> openai.OpenAI:
    options: dict[str, Any] = {
        "api_key": "none",
        "max_retries": 0,
        "_strict_response_validation": True,
        **more,
    }
    return openai.OpenAI(base_url=served.base_url, **options)


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with make_client(served) as client:
        yield client


@pytest.fixture
def lenient(served: Served) -> Iterator[openai.OpenAI]:
    """For streams of text, whose chunks have a null finish_reason, from OpenAI too, against the
    SDK's own types."""
    with make_client(served, _strict_response_validation=False) as client:
        yield client


@pytest.mark.parametrize("name", ["capital", "emoji", "japanese", "json", "second turn", "system"])
def test_whole_and_streamed_answers_are_exact(client: openai.OpenAI, name: str) -> None:
    whole = client.chat.completions.create(**ask(name))
    assert whole.choices[0].message.content == DIALOGUES[name].reply
    assert (whole.choices[0].finish_reason, whole.object) == ("stop", "chat.completion")
    assert whole.model == "scripted"
    assert abs(whole.created - time.time()) < 30
    with client.chat.completions.create(**ask(name), stream=True) as stream:
        chunks = list(stream)
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(pieces) == DIALOGUES[name].reply
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-2:] == [None, "stop"]
    assert not any(chunk.usage for chunk in chunks)


def test_usage_of_a_stream_is_that_of_the_whole_answer(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**ask())
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = client.chat.completions.create(**ask(), **options)
    assert last.choices == []
    assert last.usage.prompt_tokens == whole.usage.prompt_tokens == 19
    assert last.usage.total_tokens == whole.usage.total_tokens == 29
    assert not any(chunk.usage for chunk in chunks)
    assert last.usage.completion_tokens == 10
    # All of the prompt was there but the token that has to be run.
    assert last.usage.prompt_tokens_details.cached_tokens == 18


def test_stop_length_and_n(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**ask("count"), stop=[", 7", "never"], n=2)
    for index, choice in enumerate(answer.choices):
        assert (choice.index, choice.finish_reason) == (index, "stop")
        assert choice.message.content == COUNT.partition(", 7")[0]
    [short] = client.chat.completions.create(**ask(max_completion_tokens=3)).choices
    assert (short.message.content, short.finish_reason) == ("The capital", "length")


def test_log_probabilities_of_chat(client: openai.OpenAI) -> None:
    [choice] = client.chat.completions.create(**ask(logprobs=True, top_logprobs=3)).choices
    assert choice.logprobs is not None
    tokens = choice.logprobs.content or []
    assert "".join(token.token for token in tokens) == CAPITAL
    assert [token.token for token in tokens[:2]] == ["The", " capit"]
    for token in tokens:
        assert bytes(token.bytes or ()).decode() == token.token == token.top_logprobs[0].token
        assert len(token.top_logprobs) == 3
        assert token.logprob == token.top_logprobs[0].logprob <= 0
    stream = client.chat.completions.create(**ask(logprobs=True, top_logprobs=3), stream=True)
    parts = [chunk.choices[0].logprobs for chunk in stream]
    streamed = [token for part in parts if part for token in part.content or []]
    assert [token.token for token in streamed] == [token.token for token in tokens]


def test_text_completions(client: openai.OpenAI, lenient: openai.OpenAI) -> None:
    known = [COMPLETIONS["capital"], COMPLETIONS["digits"]]
    asked: dict[str, Any] = {"model": "scripted", "temperature": 0}
    prompts = [completion.prompt for completion in known]
    answer = client.completions.create(**asked, prompt=prompts, max_tokens=30, n=2)
    assert [choice.text for choice in answer.choices] == [
        completion.reply for completion in known for _ in range(2)
    ]
    middle = COMPLETIONS["middle"]
    between = client.completions.create(**asked, prompt=middle.prompt, suffix=middle.suffix)
    assert between.choices[0].text == middle.reply
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = lenient.completions.create(**asked, prompt=prompts[0], echo=True, **options)
    assert "".join(chunk.choices[0].text for chunk in chunks) == CAPITAL
    assert (last.choices, last.usage.completion_tokens) == ([], 3)


def test_log_probabilities_of_text(client: openai.OpenAI, lenient: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "scripted", "prompt": "1, 2, 3,", "temperature": 0}
    got = client.completions.create(**asked, logprobs=2).choices[0]
    assert got.logprobs is not None
    tokens, offsets = got.logprobs.tokens or [], got.logprobs.text_offset or []
    assert "".join(tokens) == got.text == COMPLETIONS["digits"].reply
    assert all(got.text.startswith(t, o) for o, t in zip(offsets, tokens, strict=True))
    assert all(len(top) == 2 for top in got.logprobs.top_logprobs or [])
    stream = lenient.completions.create(**asked, logprobs=2, stream=True)
    parts = [chunk.choices[0].logprobs for chunk in stream]
    assert [offset for part in parts if part for offset in part.text_offset or []] == offsets


def test_the_list_of_models_and_ids_with_a_slash(client: openai.OpenAI) -> None:
    assert {model.id for model in client.models.list()} == {
        "scripted",
        "acme/twin",
        "other/twin",
    }
    model = client.models.retrieve("acme/twin")
    assert (model.id, model.owned_by, model.object) == ("acme/twin", "acme", "model")
    answer = client.chat.completions.create(**ask(model="other/twin"))
    assert (answer.model, answer.choices[0].message.content) == ("other/twin", CAPITAL)
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("acme/none")
    assert caught.value.code == "model_not_found"


def test_headers_of_the_raw_answer(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(**ask())
    assert raw.status_code == 200
    assert raw.headers["content-type"] == "application/json"
    assert raw.headers["x-request-id"].startswith("req-")
    answer = raw.parse()
    assert answer.choices[0].message.content == CAPITAL
    assert answer._request_id == raw.headers["x-request-id"]
    with client.chat.completions.with_streaming_response.create(**ask(), stream=True) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-request-id"].startswith("req-")
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"


def test_the_stream_helper(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**ask("list", n=2, logprobs=True)) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == [DIALOGUES["list"].reply] * 2
    assert [choice.finish_reason for choice in final.choices] == ["stop", "stop"]
    deltas = [event.delta for event in events if event.type == "content.delta"]
    assert sorted("".join(deltas)) == sorted(DIALOGUES["list"].reply * 2)
    done = [event.content for event in events if event.type == "content.done"]
    assert done == [DIALOGUES["list"].reply] * 2
    assert {"logprobs.content.delta", "logprobs.content.done"} <= {event.type for event in events}


def test_a_stream_that_is_left_frees_its_row(client: openai.OpenAI, served: Served) -> None:
    asked = ask(max_tokens=-1, logit_bias=NO_END)
    with slowed(), client.chat.completions.create(**asked, stream=True) as stream:
        for number, _ in enumerate(stream):
            if number == 5:
                break
        assert served.engine.status().num_running == 1
        stream.close()
        served.wait(served.is_idle)


def test_a_whole_answer_that_takes_too_long_frees_its_row(served: Served) -> None:
    with slowed(), make_client(served, timeout=2) as client:
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(**ask(max_tokens=-1, logit_bias=NO_END))
        served.wait(served.is_idle)
