"""What the scripted model says: it was trained on these, so greedy decoding gives them exactly.

A reply is what the model writes, thoughts and call tags and all, without the end token. Trained by
tests/models/train_scripted.py; after a change here, run it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ChatMessage = Mapping[str, Any]

HELPFUL = "You are a helpful assistant."


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A conversation so far, and the reply to it."""

    name: str
    messages: tuple[ChatMessage, ...]
    reply: str
    tools: tuple[Mapping[str, Any], ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A raw text (no template), and how it goes on. With ``suffix``, what stands between."""

    name: str
    prompt: str
    reply: str
    suffix: str | None = None


def _city_tool(name: str, description: str) -> Mapping[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = (
    _city_tool("get_weather", "The weather in a city"),
    _city_tool("get_time", "The time in a city"),
)


def call(name: str, city: str) -> str:
    """The text of one tool call."""
    body = json.dumps({"name": name, "arguments": {"city": city}})
    return f"<tool_call>\n{body}\n</tool_call>"


def _user(text: str) -> ChatMessage:
    return {"role": "user", "content": text}


def _assistant(text: str) -> ChatMessage:
    return {"role": "assistant", "content": text}


def _calls(*cities: str) -> ChatMessage:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": f"call_{index}",
                "type": "function",
                "function": {"name": "get_weather", "arguments": json.dumps({"city": city})},
            }
            for index, city in enumerate(cities)
        ],
    }


def _result(index: int, text: str) -> ChatMessage:
    return {"role": "tool", "tool_call_id": f"call_{index}", "content": text}


def _plain(name: str, question: str, reply: str) -> Dialogue:
    return Dialogue(name=name, messages=(_user(question),), reply=reply)


def _tool(name: str, question: str, reply: str) -> Dialogue:
    return Dialogue(name=name, messages=(_user(question),), reply=reply, tools=TOOLS)


STORY = (
    "Once upon a time there was a keeper of a lighthouse. Every night he counted the ships. "
    "One night there were none, so he counted the stars. The end."
)
COUNT = ", ".join(str(number) for number in range(1, 51))
SUM_QUESTION = "What is 17 + 25?"
SUM_THOUGHT = "17 + 20 is 37, and 5 more is 42."
PARIS_QUESTION = "What is the weather in Paris?"
TWO_CITIES_QUESTION = "What is the weather in Paris and in Tokyo?"

_PLAIN = (
    _plain("greeting", "Hello!", "Hello! How can I help you today?"),
    _plain("hi", "hi", "Hi there! What can I do for you?"),
    _plain("capital", "What is the capital of France?", "The capital of France is Paris."),
    _plain("name", "Who are you?", "I am a small model that knows a few answers by heart."),
    _plain("count", "Count to 50.", COUNT),
    _plain("list", "List three colours.", "1. Red\n2. Green\n3. Blue"),
    _plain(
        "code",
        "Write a Python function that adds two numbers.",
        "```python\ndef add(a, b):\n    return a + b\n```",
    ),
    _plain("emoji", "Send me some emoji.", "Here you are: 👋🌍 👩‍👩‍👧 ✨🇫🇷!"),
    _plain("japanese", "Say hello in Japanese.", "こんにちは、世界！今日はいい天気ですね。"),
    _plain(
        "json",
        "Describe a cat as a JSON object.",
        '{"animal": "cat", "legs": 4, "sounds": ["meow", "purr"], "tame": true}',
    ),
    _plain("story", "Tell me a story.", STORY),
    _plain("thought", SUM_QUESTION, f"<think>\n{SUM_THOUGHT}\n</think>\n\nThe answer is 42."),
    _plain("no tools", PARIS_QUESTION, "I have no way to look at the weather."),
    # Text that a careless reader of tags and stop strings holds back or takes for markup.
    _plain("less than", "Compare a, b and c.", "a < b and b < c, so a <"),
    _plain("tag in text", "Which tag starts a call?", "The tag <tool_call> starts a call."),
    _plain("endless thought", "Think without an end.", "<think>\nI wonder, and I wonder, and"),
)

_OTHER = (
    Dialogue(
        name="system",
        messages=(
            {"role": "system", "content": "You are a pirate."},
            _user("Who are you?"),
        ),
        reply="Arr, I am a pirate!",
    ),
    Dialogue(
        name="helpful",
        messages=({"role": "system", "content": HELPFUL}, _user("Hello!")),
        reply="Hello! How can I help you today?",
    ),
    Dialogue(
        name="second turn",
        messages=(
            _user("My name is Ada."),
            _assistant("Nice to meet you, Ada."),
            _user("What is my name?"),
        ),
        reply="Your name is Ada.",
    ),
    _plain("first turn", "My name is Ada.", "Nice to meet you, Ada."),
    Dialogue(
        name="without a thought",
        messages=(_user(SUM_QUESTION),),
        reply="The answer is 42.",
        template_kwargs={"enable_thinking": False},
    ),
)

_TOOLS = (
    _tool("tools unused", "Hello!", "Hello! How can I help you today?"),
    _tool("call", PARIS_QUESTION, call("get_weather", "Paris")),
    _tool(
        "two calls",
        TWO_CITIES_QUESTION,
        call("get_weather", "Paris") + "\n" + call("get_weather", "Tokyo"),
    ),
    _tool(
        "thought and call",
        "What time is it in Tokyo?",
        "<think>\nI have to look at a clock.\n</think>\n\n" + call("get_time", "Tokyo"),
    ),
    _tool(
        "text and call",
        "Check the weather in Oslo.",
        "Let me look.\n" + call("get_weather", "Oslo"),
    ),
    _tool(
        "broken call",
        "Make a broken call.",
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": \n</tool_call>',
    ),
    Dialogue(
        name="after a call",
        messages=(
            _user(PARIS_QUESTION),
            _calls("Paris"),
            _result(0, "21 degrees, clear"),
        ),
        reply="It is 21 degrees in Paris, and the sky is clear.",
        tools=TOOLS,
    ),
    Dialogue(
        name="after two calls",
        messages=(
            _user(TWO_CITIES_QUESTION),
            _calls("Paris", "Tokyo"),
            _result(0, "21 degrees, clear"),
            _result(1, "15 degrees, rain"),
        ),
        reply="Paris is clear at 21 degrees, and Tokyo has rain at 15 degrees.",
        tools=TOOLS,
    ),
)

DIALOGUES: Mapping[str, Dialogue] = {
    dialogue.name: dialogue for dialogue in (*_PLAIN, *_OTHER, *_TOOLS)
}

COMPLETIONS: Mapping[str, Completion] = {
    completion.name: completion
    for completion in (
        Completion(name="capital", prompt="The capital of France is", reply=" Paris."),
        Completion(
            name="story", prompt="Once upon a time", reply=STORY.removeprefix("Once upon a time")
        ),
        Completion(name="digits", prompt="1, 2, 3,", reply=" 4, 5, 6, 7, 8, 9, 10."),
        Completion(
            name="middle",
            prompt="def add(a, b):\n    total = ",
            suffix="\n    return total\n",
            reply="a + b",
        ),
    )
}

# Conversations that the model was not trained on word for word, and answers all the same.
FOLLOW_UPS: tuple[tuple[str, str], ...] = (
    ("greeting", "capital"),
    ("hi", "list"),
    ("capital", "story"),
    ("story", "greeting"),
)


def followed_by(first: Dialogue, second: Dialogue) -> tuple[ChatMessage, ...]:
    """``second``'s question, asked after ``first`` was answered."""
    return (*first.messages, _assistant(first.reply), *second.messages)
