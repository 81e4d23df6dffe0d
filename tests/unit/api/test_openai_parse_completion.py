"""Bodies of /completions: the four shapes of a prompt, and what each mistake is called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.openai import CompletionCall, parse_completion
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import NO_LIMIT, GenerateRequest, Prompt, TextPrompt, TokenPrompt


def parse(**fields: Any) -> CompletionCall:
    body = json.dumps({"model": "m", "prompt": "p", **fields}).encode()
    return parse_completion(body, request_id="r")


def test_the_smallest_body() -> None:
    assert parse() == CompletionCall(
        request=GenerateRequest(id="r", model="m", prompts=(TextPrompt("p"),)),
        stream=False,
        include_usage=False,
    )


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("one", (TextPrompt("one"),)),
        (["a", "b"], (TextPrompt("a"), TextPrompt("b"))),
        ([10, 20, 30], (TokenPrompt((10, 20, 30)),)),
        ([[1, 2], [3]], (TokenPrompt((1, 2)), TokenPrompt((3,)))),
        (["same", "same"], (TextPrompt("same"), TextPrompt("same"))),
    ],
    ids=["text", "texts", "ids", "lists of ids", "twice the same"],
)
@pytest.mark.clients(26)
def test_shapes_of_a_prompt(prompt: object, prompts: tuple[Prompt, ...]) -> None:
    request = parse(prompt=prompt, n=2).request
    assert (request.prompts, request.num_choices) == (prompts, 2 * len(prompts))


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"suffix": "s"}, "prompts", (TextPrompt("p", "s"),)),
        ({"suffix": ""}, "prompts", (TextPrompt("p"),)),
        (
            {"prompt": ["a", "b"], "suffix": "s"},
            "prompts",
            (TextPrompt("a", "s"), TextPrompt("b", "s")),
        ),
        ({"suffix": "", "prompt": [1]}, "prompts", (TokenPrompt((1,)),)),
        ({"echo": True}, "echo", True),
        ({"echo": True, "logprobs": None}, "echo", True),
        ({"echo": False, "logprobs": 2}, "top_logprobs", 2),
        ({"logprobs": 0}, "top_logprobs", 0),
        ({"logprobs": 20}, "top_logprobs", 20),
        ({"n": 3, "best_of": 3}, "n", 3),
        ({"n": 3, "best_of": 1}, "n", 3),
        ({"best_of": None}, "n", 1),
        ({"max_tokens": 16}, "max_tokens", 16),
        ({"max_tokens": -1}, "max_tokens", NO_LIMIT),
        ({"max_completion_tokens": 4, "max_tokens": 16}, "max_tokens", 4),
        ({"stop": ["\n"]}, "stop", ("\n",)),
        ({"prompt": ["p"] * 2048}, "prompts", (TextPrompt("p"),) * 2048),
    ],
    ids=lambda value: str(value)[:60],
)
@pytest.mark.clients(44, 45)
def test_request_fields(fields: dict[str, Any], name: str, value: object) -> None:
    assert getattr(parse(**fields).request, name) == value


def test_stream() -> None:
    call = parse(stream=True, stream_options={"include_usage": True})
    assert (call.stream, call.include_usage) == (True, True)


def test_sampling_is_shared_with_chat() -> None:
    sampling = parse(
        temperature=0, top_k=5, repeat_penalty=1.5, logit_bias={"3": 4}
    ).request.sampling
    assert (sampling.temperature, sampling.top_k) == (0.0, 5)
    assert (sampling.repetition_penalty, sampling.logit_bias) == (1.5, ((3, 4.0),))


MISTAKES = [
    ({"prompt": None}, "prompt", "'prompt' is missing"),
    ({"prompt": ""}, "prompt", "'prompt' is empty"),
    ({"prompt": ["a", ""]}, "prompt[1]", "'prompt[1]' is empty"),
    ({"prompt": []}, "prompt", "is an empty list"),
    ({"prompt": [[]]}, "prompt[0]", "is empty"),
    ({"prompt": [[1], []]}, "prompt[1]", "is empty"),
    ({"prompt": [1, "a"]}, "prompt", "mixes"),
    ({"prompt": ["a", [1]]}, "prompt", "mixes"),
    ({"prompt": [[1], 1]}, "prompt", "mixes"),
    ({"prompt": [1, True]}, "prompt[1]", "not a boolean"),
    ({"prompt": [[1, False]]}, "prompt[0][1]", "must be a whole number, not a boolean"),
    ({"prompt": [1.5]}, "prompt[0]", "not a number with a decimal point"),
    ({"prompt": [None]}, "prompt[0]", "not null"),
    ({"prompt": [["a"]]}, "prompt[0][0]", "must be a whole number, not a string"),
    ({"prompt": [3, -1]}, "prompt[1]", "'prompt[1]' is negative"),
    ({"prompt": [[3], [3, -1]]}, "prompt[1][1]", "'prompt[1][1]' is negative"),
    ({"prompt": 5}, "prompt", "must be a string or a list, not a whole number"),
    ({"prompt": {"text": "x"}}, "prompt", "not an object"),
    ({"prompt": ["p"] * 2049}, "prompt", "2049 prompts with 1 answers each"),
    ({"prompt": ["p"] * 1025, "n": 2}, "n", "1025 prompts with 2 answers each"),
    ({"prompt": [1], "suffix": "s"}, "suffix", "needs a prompt of text"),
    ({"suffix": 5}, "suffix", "must be a string, not a whole number"),
    ({"best_of": 2}, "best_of", "must be 1 or equal to 'n' (1), not 2"),
    ({"best_of": 2, "n": 3}, "best_of", "must be 1 or equal to 'n' (3), not 2"),
    ({"logprobs": 21}, "logprobs", "must be from 0 to 20, not 21"),
    ({"logprobs": -1}, "logprobs", "must be from 0 to 20, not -1"),
    ({"logprobs": True}, "logprobs", "must be a whole number, not a boolean"),
    ({"echo": True, "logprobs": 0}, "echo", "'echo' together with 'logprobs'"),
    ({"echo": "yes"}, "echo", "must be true or false"),
    ({"max_tokens": 0}, "max_tokens", "must be at least 1"),
    ({"temperature": 3}, "temperature", "must be from 0 to 2"),
    ({"response_format": {"type": "yaml"}}, "response_format.type", "yaml"),
]


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    MISTAKES,
    ids=[f"{param}-{words[:40]}" for _, param, words in MISTAKES],
)
@pytest.mark.clients(29, 40, 45)
def test_a_mistake_is_named(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param
    assert words in caught.value.message
