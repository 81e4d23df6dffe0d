"""LiteLLM, set up by its variables alone. Prints what it got as JSON, in its last line."""

import json
from pathlib import Path

import litellm

MODEL = "openai/scripted"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": SCHEMA}}
    for name, text in (
        ("get_weather", "The weather in a city"),
        ("get_time", "The time in a city"),
    )
]


def ask(messages, *, stream, **more):
    answer = litellm.completion(
        model=MODEL, messages=messages, temperature=0, stream=stream, max_retries=0, **more
    )
    return litellm.stream_chunk_builder(list(answer)) if stream else answer


def text(stream):
    question = [{"role": "user", "content": "What is the capital of France?"}]
    return ask(question, stream=stream).choices[0].message.content


def after_call(stream):
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    message = ask(messages, stream=stream, tools=TOOLS).choices[0].message
    [call] = message.tool_calls
    city = json.loads(call.function.arguments)["city"]
    Path(f"{city}.txt").write_text("21 degrees, clear")
    result = {"role": "tool", "tool_call_id": call.id, "content": "21 degrees, clear"}
    messages += [message.model_dump(exclude_none=True), result]
    return ask(messages, stream=stream, tools=TOOLS).choices[0].message.content


shown = {
    "texts": [text(False), text(True)],
    "afterCalls": [after_call(False), after_call(True)],
}
print(json.dumps(shown))
