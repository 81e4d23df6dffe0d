"""What shells are offered after Tab, and the scripts that have them ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.commands import environment, run

HEAVY = {"asyncio", "aiohttp", "mlx", "numpy", "prompt_toolkit"}


def offered(home: Path, *words: str, models: Path | None = None) -> list[str]:
    """For the last word. Nothing may be said but the offers."""
    extra = {
        "_MAXI_MLX_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["maxi-mlx", *words]),
        "COMP_CWORD": str(len(words)),
        **({} if models is None else {"MAXI_MLX_MODEL_DIR": str(models)}),
    }
    done = run(home=home, extra=extra)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.slow
def test_commands_options_and_values(tmp_path: Path) -> None:
    assert offered(tmp_path, "com") == ["completion"]
    assert offered(tmp_path, "serve", "--strat") == ["--strategy"]
    assert offered(tmp_path, "serve", "--strategy", "la") == ["latency"]


@pytest.mark.slow
def test_models(tmp_path: Path, scripted_model: Path) -> None:
    models = scripted_model.parent
    assert offered(tmp_path, "chat", "SCR", models=models) == ["scripted"]
    assert offered(tmp_path, "run", "scr", models=models) == ["scripted"]
    assert offered(tmp_path, "run", "scripted", "scr", models=models) == []
    (tmp_path / ".maxi-mlx").mkdir()
    (tmp_path / ".maxi-mlx/config.toml").write_text("not TOML")
    assert offered(tmp_path, "chat", "scr", models=models) == []


@pytest.mark.parametrize("words", ["", "chat "], ids=["commands", "models"])
def test_completing_imports_nothing_heavy(tmp_path: Path, words: str) -> None:
    code = (
        "import sys\nfrom maxi_mlx.cli.main import main\n"
        "try:\n    main([])\nexcept SystemExit:\n    pass\n"
        f"print('heavy:', sorted({HEAVY} & set(sys.modules)))\n"
    )
    extra = {
        "_MAXI_MLX_COMPLETE": "bash_complete",
        "COMP_WORDS": f"maxi-mlx {words}",
        "COMP_CWORD": str(1 + len(words.split())),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path, extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.endswith("heavy: []\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script(tmp_path: Path, shell: str) -> None:
    done = run("completion", shell, home=tmp_path)
    assert done.returncode == 0
    assert "_MAXI_MLX_COMPLETE" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith("# ")
    assert f"maxi-mlx completion {shell}" in last
    if shutil.which(shell):
        checked = subprocess.run(
            [shell, "-n"], input=done.stdout, capture_output=True, text=True, timeout=60
        )
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac's own bash is too old for it")
def test_in_bash(tmp_path: Path, scripted_model: Path) -> None:
    program = tmp_path / "maxi-mlx"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m maxi_mlx "$@"\n')
    program.chmod(0o755)
    asked = (
        'eval "$(maxi-mlx completion bash)"\n'
        "COMP_WORDS=(maxi-mlx chat scr) COMP_CWORD=2\n"
        '_maxi_mlx_completion maxi-mlx scr chat && echo "${COMPREPLY[@]}"\n'
    )
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "MAXI_MLX_MODEL_DIR": str(scripted_model.parent),
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        env=environment(tmp_path, variables),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "scripted\n", done.stderr
