"""The server beside in-process mlx-lm: the figures, and the command itself."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
import tokens_per_second
from measuring.speed import Speed, comparison, ratios

from tests.conftest import TinyModel

ROUNDS = {
    "in-process": [Speed(100, 1.0, (0.1,)), Speed(100, 2.0, (0.3,)), Speed(100, 4.0, (0.2,))],
    "server": [Speed(90, 1.0, (0.2,)), Speed(100, 4.0, (0.4,)), Speed(100, 5.0, ())],
}


def test_rounds_are_compared_with_their_own_neighbours() -> None:
    assert ratios(ROUNDS, "server", "in-process") == [0.9, 0.5, 0.8]


def test_the_table_has_medians_and_the_range_of_the_ratio() -> None:
    lines = comparison({4: ROUNDS}).splitlines()
    assert lines[0].endswith("server ÷ in-process")
    assert lines[1].split() == ["4", "50.0", "200", "25.0", "300", "0.80", "(0.50-0.90)"]


def test_every_pair_of_contenders_is_compared() -> None:
    heading = comparison({1: {**ROUNDS, "other": ROUNDS["server"]}}).splitlines()[0]
    pairs = ("server ÷ in-process", "other ÷ in-process", "other ÷ server")
    assert all(pair in heading for pair in pairs)


def test_a_folder_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        tokens_per_second.parse(["--model", str(tmp_path)])
    assert caught.value.code == 2
    assert "is not a model folder: it has no config.json" in capsys.readouterr().err


@pytest.mark.slow
async def test_as_a_command(tiny_model: TinyModel, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, tokens_per_second.__file__, "--model", str(tiny_model("llama"))),
        *("--concurrency", "1,3", "--rounds", "2", "--prompt-tokens", "20"),
        *("--max-tokens", "12", "--json", str(figures)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    title, _, one, three = output.decode().splitlines()
    assert title == "tiny-llama: 2 rounds, 12 tokens a text at most"
    assert (one.split()[0], three.split()[0]) == ("1", "3")
    levels = json.loads(figures.read_text())
    for concurrency, num_tokens in (("1", 12), ("3", 36)):
        for name in ("in-process", "server"):
            assert [r["num_tokens"] for r in levels[concurrency][name]] == [num_tokens] * 2
