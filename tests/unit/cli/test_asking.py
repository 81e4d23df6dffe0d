"""The machines between a server's bytes and a terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.cli.asking.inert import inert
from maxi_mlx.cli.asking.stream import End, Piece, StreamReader, Text, Thought
from maxi_mlx.cli.options import arguments_of
from maxi_mlx.core.errors import NoAnswer


def frame(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"model": "m", "choices": [choice]}).encode() + b"\n\n"


STREAM = (
    frame({"role": "assistant", "content": ""})
    + b": working\n\n"
    + frame({"reasoning_content": "Hm", "reasoning": "Hm"})
    + frame({"content": "Grüße\n\n"})
    + frame({}, "stop")
    + b'data: {"model":"m","choices":[],"usage":{"completion_tokens":2}}\n\ndata: [DONE]\n\n'
)
PIECES = [Thought("Hm"), Text("Grüße\n\n"), End("m", "stop", {"completion_tokens": 2})]


@pytest.mark.parametrize("size", [1, 2, 7, 64, len(STREAM)])
def test_pieces_however_the_stream_is_cut(size: int) -> None:
    reader = StreamReader()
    pieces: list[Piece] = []
    for place in range(0, len(STREAM), size):
        pieces += reader.feed(STREAM[place : place + size])
    assert pieces == PIECES


def test_error_in_the_stream() -> None:
    with pytest.raises(NoAnswer) as caught:
        list(StreamReader().feed(b'data: {"error":{"message":"No.","code":"busy"}}\n\n'))
    assert (caught.value.message, caught.value.code) == ("No.", "busy")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a\tb\r\nc\n", "a\tb\nc\n"),
        ("\x1b[31mred\x07\x7f\x9b2J", "�[31mred���2J"),
        ("\u202egnp.exe \u2066x\u2069", "�gnp.exe �x�"),
        ("\ud800 is no text", "� is no text"),
        ("👩‍👩‍👧 こんにちは é", "👩‍👩‍👧 こんにちは é"),
    ],
    ids=["lines", "controls", "directions", "surrogates", "text"],
)
def test_inert(said: str, shown: str) -> None:
    assert inert(said) == shown


def test_arguments_of_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.chdir("/")
    flags = {"port": "80", "model_dir": ("a", "~/b"), "store": False, "model": None, "cors": ()}
    assert arguments_of({**flags, "config": "c.toml"}) == [
        "--config=/c.toml",
        "--port=80",
        "--model-dir=/a",
        "--model-dir=/home/ada/b",
        "--no-store",
    ]
