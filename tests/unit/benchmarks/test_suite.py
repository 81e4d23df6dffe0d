"""The suite as its user runs it, on a small model."""

from __future__ import annotations

import asyncio
import json
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


@pytest.mark.slow
async def test_as_a_command(tiny_model: TinyModel, tmp_path: Path) -> None:
    model = build_tiny(tiny_model("llama"), tmp_path / "model")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, suite.__file__, "--quick", "--model", str(model.folder)),
        *("--only", "own-cpu", "--only", "stall", "--only", "choices"),
        *("--out", str(tmp_path / "out")),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    (folder,) = (tmp_path / "out").iterdir()
    assert (folder / "suite.txt").read_text() == output.decode()
    document = json.loads((folder / "suite.json").read_text())
    assert [result["row"] for result in document["results"]] == ["own-cpu", "stall", "choices"]
    cpu, stall, choices = (result["figures"] for result in document["results"])
    assert all(-50 < run < 50 for run in cpu[0]["runs"])  # milliseconds a token
    assert all(run > 0.5 for figure in stall for run in figure["runs"])
    assert choices[0]["runs"] == [1.0, 1.0]
    speeds = document["results"][0]["raw"]["speeds"]
    num_tokens = {speed["num_tokens"] for rounds in speeds.values() for speed in rounds}
    assert num_tokens == {32 * 24}  # all wrote as much
