"""LangChain with the model that the lines of code in ``connected.py`` make. Prints what it got as
JSON, in its last line."""

import json
from pathlib import Path

from connected import model
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool


@tool
def get_weather(city: str) -> str:
    """The weather in a city"""
    Path(f"{city}.txt").write_text("21 degrees, clear")
    return "21 degrees, clear"


@tool
def get_time(city: str) -> str:
    """The time in a city"""
    raise AssertionError(f"nobody asked for the time in {city}")


def joined(chunks):
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return whole


def after_call(send):
    messages = [HumanMessage("What is the weather in Paris?")]
    calling = send(messages)
    [call] = calling.tool_calls
    messages += [calling, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    return send(messages).content


model.temperature = 0
with_tools = model.bind_tools([get_weather, get_time])
question = "What is the capital of France?"
shown = {
    "texts": [model.invoke(question).content, joined(model.stream(question)).content],
    "afterCalls": [
        after_call(with_tools.invoke),
        after_call(lambda messages: joined(with_tools.stream(messages))),
    ],
}
print(json.dumps(shown))
