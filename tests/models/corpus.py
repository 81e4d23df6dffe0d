"""The text that the tiny tokenizers are trained on: our own prose, code and data."""

from __future__ import annotations

PROSE = """
A small server waits for a question and answers it, one word at a time. The first word takes the
longest, because the whole question has to be read before it can be written. After that the words
come quickly, and the reader can follow them as they appear on the screen.
There was once a keeper of a lighthouse who counted the ships that passed in the night. One, two,
three, four, five, six, seven, eight, nine, ten: he wrote each number into a book with a blue cover.
When the book was full he began another, and when the shelf was full he built another shelf.
What is the capital of France? Paris is the capital of France. What is the weather in the city
today? The weather is fine, with a little wind from the west and no rain before the evening.
Please write a list of things to bring: bread, water, a warm coat, a map, and something to read.
You are a helpful assistant. Say hello to the user, answer the question, and then stop.
"""

CODE = """
def add(left: int, right: int) -> int:
    return left + right

for index in range(10):
    print(index, add(index, 1))

{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
{"id": 1, "tags": ["red", "green", "blue"], "done": false, "next": null}
https://example.org/v1/chat/completions?stream=true
"""

OTHER = """
Grüße aus Köln, ça va très bien, ¿qué tal?
こんにちは、世界。今日はいい天気ですね。
👋 🌍 👩‍👩‍👧 ✨
"""

CORPUS: tuple[str, ...] = (PROSE, CODE, OTHER)
