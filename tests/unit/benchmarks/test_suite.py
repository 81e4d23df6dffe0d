"""The suite as its user runs it, on a small model."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import suite
from measuring.models import build_tiny

from tests.conftest import TinyModel


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--only", "speed"], "invalid choice: 'speed'"),
        (["--model", "/nowhere"], "is not a model folder: it has no config.json"),
    ],
)
def test_flags_that_make_no_sense(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        suite.parse(flags)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


async def run(*flags: str, home: Path) -> str:
    """The suite's output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, suite.__file__, "--quick", *flags),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "MAXI_MLX_HOME": str(home)},
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


@pytest.mark.slow
async def test_as_a_command(tiny_model: TinyModel, tmp_path: Path) -> None:
    model = build_tiny(tiny_model("llama"), tmp_path / "model")
    output = await run(
        *("--model", str(model.folder), "--out", str(tmp_path / "out")),
        *("--only", "own-cpu", "--only", "stall", "--only", "choices"),
        home=tmp_path / "home",
    )
    (folder,) = (tmp_path / "out").iterdir()
    assert (folder / "suite.txt").read_text() == output
    document = json.loads((folder / "suite.json").read_text())
    assert [result["row"] for result in document["results"]] == ["own-cpu", "stall", "choices"]
    cpu, stall, choices = (result["figures"] for result in document["results"])
    assert all(-50 < run < 50 for run in cpu[0]["runs"])  # milliseconds a token
    # Two runs on a busy machine may come to anything.
    assert all(run > 0.05 for figure in stall for run in figure["runs"])
    assert choices[0]["runs"] == [1.0, 1.0]
    speeds = document["results"][0]["raw"]["speeds"]
    num_tokens = {speed["num_tokens"] for rounds in speeds.values() for speed in rounds}
    assert num_tokens == {32 * 24}  # all wrote as much


@pytest.mark.slow
@pytest.mark.timeout(300)  # some dozen servers
async def test_rows_of_the_prompt_cache(tiny_model: TinyModel, tmp_path: Path) -> None:
    model = build_tiny(tiny_model("llama"), tmp_path / "model")
    rows = ("ttft-restart", "shared-bytes", "decode-full-store", "peak-memory", "turns")
    await run(
        *("--model", str(model.folder), "--out", str(tmp_path / "out")),
        *(word for row in rows for word in ("--only", row)),
        home=tmp_path / "home",
    )
    (folder,) = (tmp_path / "out").iterdir()
    results = {
        result["row"]: result
        for result in json.loads((folder / "suite.json").read_text())["results"]
    }
    assert set(results) == set(rows)
    restart = results["ttft-restart"]["raw"]["pairs"]
    # Prompts begin with a number, which may share its first digits with another.
    assert all(pair["cold"]["cached_tokens"] < 10 for pair in restart)
    assert all(1990 < pair["known"]["cached_tokens"] < 2020 for pair in restart)
    shared, grown, theirs = (figure["median"] for figure in results["shared-bytes"]["figures"])
    assert 0.9 < shared < 1.15
    assert grown < theirs
    assert results["decode-full-store"]["figures"][0]["median"] > 0.1
    known, restarted, their_known = (
        figure["median"] for figure in results["peak-memory"]["figures"]
    )
    assert 1 <= known <= 1.1  # a process's peak only rises
    assert 0 < restarted <= 1.1
    assert their_known >= 1
    turns = [figure["median"] for figure in results["turns"]["figures"] if figure["target"]]
    assert len(turns) == 3
    assert all(0.9 < ratio < 1.3 for ratio in turns)
    assert not (tmp_path / "home").exists()  # no server used its owner's prompt cache


@pytest.mark.slow
async def test_rows_of_two_models(tiny_model: TinyModel, tmp_path: Path) -> None:
    model = build_tiny(tiny_model("llama"), tmp_path / "model")
    await run(
        *("--model", str(model.folder), "--out", str(tmp_path / "out")),
        *("--only", "switch", "--only", "two-models"),
        home=tmp_path / "home",
    )
    (folder,) = (tmp_path / "out").iterdir()
    switch, together = json.loads((folder / "suite.json").read_text())["results"]
    assert all(run > 0.1 for result in (switch, together) for run in result["figures"][0]["runs"])
    alone, both = together["raw"]["speeds"].values()
    assert [speed["num_tokens"] for speed in both] == [2 * speed["num_tokens"] for speed in alone]
