"""Which syntax a model was taught, by template, tokens and type; and the prompt for the others."""

from __future__ import annotations

import pytest

from maxi_mlx.text.source import Tags
from maxi_mlx.text.tool_calls import (
    GENERIC,
    call_text,
    find_tool_syntax,
    generic_tool_prompt,
    new_call_id,
    result_text,
    syntaxes,
)
from tests.models.templates import CHATML, CHATML_WITH_TOOLS, TURNS
from tests.unit.text.tool_calls.reading import TOOLS, Called, read

XTML = {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}

FOUND = {
    "hermes": (CHATML_WITH_TOOLS, (), "", "json_tools"),
    "no tools": (CHATML, ("<tool_call>",), "qwen3", None),
    "turns": (TURNS, (), "", None),
    "base model": (None, (), "llama", None),
    "qwen3 coder": ("{{- '<tool_call>\\n<function=' }}", (), "", "qwen3_coder"),
    "glm": ("<tool_call>{{ name }}<arg_key>", (), "", "glm47"),
    "minimax": ("<minimax:tool_call> <tool_call>", (), "", "minimax_m2"),
    "gemma 4": ("<|tool_call>call:<tool_call|>", (), "", "gemma4"),
    "function gemma": ("<start_function_call>", (), "", "function_gemma"),
    "longcat": ("<longcat_tool_call>", (), "", "longcat"),
    "lfm2": ("<|tool_list_start|>", (), "", "pythonic"),
    "lfm2.5": ("", ("<|tool_call_start|>", "<|tool_call_end|>"), "", "pythonic"),
    "kimi k2": ("<|tool_calls_section_begin|>", (), "", "kimi_k2"),
    "kimi k3": (None, XTML, "", "kimi_k3"),
    "minicpm5": ('<function name="f"><param name="p">', (), "", "minicpm5"),
    "mistral": ("[TOOL_CALLS]{{ name }}[ARGS]", (), "", "mistral"),
    "older mistral": ("[TOOL_CALLS] [", (), "", "mistral_list"),
    "muse spark": (None, (), "muse_spark", "muse_spark"),
    "deepseek v3.2": (None, (), "deepseek_v32", "deepseek_v32"),
    "gpt-oss": ("<|channel|>commentary to=functions.f", (), "", "harmony"),
    "llama 3.1": ("<|start_header_id|>ipython {{ parameters }}", (), "", "llama3"),
    "llama 4": ("<|python_start|>", (), "", "llama4"),
}


@pytest.mark.parametrize(
    ("template", "tokens", "model_type", "expected"), FOUND.values(), ids=FOUND
)
def test_detection(
    template: str | None, tokens: set[str], model_type: str, expected: str | None
) -> None:
    syntax = find_tool_syntax(template, tokens, model_type)
    assert (syntax and syntax.name) == expected


@pytest.mark.parametrize("syntax", syntaxes.ALL, ids=lambda syntax: syntax.name)
def test_no_tag_hides_another(syntax: syntaxes.ToolSyntax) -> None:
    """A search for several words finds the same whatever pieces the text comes in."""
    words = Tags((*syntax.begin_tags, *syntax.end_tags, "{", "[", "```")).words
    for word in words:
        for other in words:
            assert word == other or word not in other[1:-1] or other.endswith(word)


def test_the_generic_prompt_asks_for_what_is_read() -> None:
    prompt = generic_tool_prompt(TOOLS)
    assert '{"name": "get_weather", "description": "The weather", "parameters": {' in prompt
    assert "<tool_call>" in prompt
    assert "</tool_call>" in prompt
    told = read(GENERIC, call_text("get_time", '{"exact": true}'))
    assert told == [Called("get_time", '{"exact": true}', "new_0")]
    assert result_text("21", name="f") == '<tool_response name="f">\n21\n</tool_response>'


def test_ids_are_long_and_differ() -> None:
    ids = {new_call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(id) == 29 and id[:5] == "call_" and id[5:].isalnum() for id in ids)
