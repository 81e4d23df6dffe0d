"""What goes wrong at the command line is one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from maxi_mlx.cli.main import COMMANDS
from tests.unit.cli.commands import environment, run


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(
            ["sevre"],
            f"no such command 'sevre'; there are {', '.join(COMMANDS)} (see maxi-mlx --help)",
            id="command",
        ),
        pytest.param(
            ["serve", "--port", "70000"],
            'flag --port: "70000" is not a whole number from 0 to 65535',
            id="value",
        ),
        pytest.param(
            ["serve", "--model-dir", "/no/such/folder"],
            "flag --model-dir: /no/such/folder does not exist",
            id="folder",
        ),
        pytest.param(
            ["list", "--model-dir", sys.executable],
            f"flag --model-dir: {sys.executable} is not a folder",
            id="folder-is-a-file",
        ),
        pytest.param(
            ["serve", "--config", "/no/such.toml"],
            "can't read the configuration /no/such.toml: no such file or directory",
            id="config",
        ),
    ],
)
def test_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], line: str) -> None:
    result = run(*arguments, home=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"maxi-mlx: {line}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--prot", "5"], "no such option '--prot'; did you mean '--port'?", id="near"),
        pytest.param(["--zzz"], "no such option '--zzz' (see maxi-mlx serve --help)", id="far"),
        pytest.param(
            ["--decode-share", "1"],
            "no such option '--decode-share'; decode_share is set in the file alone, under "
            "[scheduler] (see",
            id="in the file alone",
        ),
        pytest.param(["--port"], "option '--port' requires an argument", id="without-value"),
        pytest.param(["surplus"], "got unexpected extra argument (surplus) (see", id="argument"),
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = run("serve", *arguments, home=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith(f"maxi-mlx: {words}")
    assert result.stderr.count("\n") == 1


def test_configuration_in_the_home_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / ".maxi-mlx").mkdir()
    file = tmp_path / ".maxi-mlx/config.toml"
    file.write_text("prot = 5\n")
    result = run("serve", home=tmp_path)
    assert result.returncode == 2
    assert result.stderr == f"maxi-mlx: file {file}: unknown key 'prot'; did you mean 'port'?\n"


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has Metal")
def test_metal_on_another_system(tmp_path: Path) -> None:
    result = run("serve", "--backend", "metal", home=tmp_path)
    assert result.returncode == 2
    line = "--backend metal needs a Mac; use --backend auto, cpu or cuda here"
    assert result.stderr == f"maxi-mlx: {line}\n"


@pytest.mark.slow
def test_taken_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", "--port", str(port), home=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert f"maxi-mlx: Port {port} is taken" in result.stderr


@pytest.mark.slow
def test_unknown_and_broken_models(tmp_path: Path) -> None:
    broken = tmp_path / "models/broken"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("{")
    for option in ("--model", "--fallback-model"):
        place = f"flag {option}: "
        for name, words in (
            ("broken", f"{place}broken ({broken}) can't be served: config.json"),
            ("none", f"{place}there is no model 'none', nor any other; try `maxi-mlx pull"),
        ):
            folder = str(tmp_path / "models")
            result = run("serve", "--model-dir", folder, option, name, home=tmp_path)
            assert result.returncode == 2
            assert result.stderr.startswith("maxi-mlx: ")
            assert result.stderr.count("\n") == 1
            assert words in result.stderr


def test_unknown_model_beside_others(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder = str(tiny_model("llama"))
    file = tmp_path / "config.toml"
    for name, words in (
        ("tiny-lama", "there is no model 'tiny-lama'; did you mean 'tiny-llama'? `maxi-mlx list`"),
        ("wrong", "there is no model 'wrong'; `maxi-mlx list` shows what there is"),
    ):
        file.write_text(f'model = "{name}"\n')
        result = run("serve", "--model-dir", folder, "--config", str(file), home=tmp_path)
        assert result.returncode == 2
        assert result.stderr.startswith(f"maxi-mlx: file {file}, model: {words}")
        assert "/v1/models" not in result.stderr


@pytest.mark.parametrize("arguments", [["serve"], ["list"], ["pull", "smollm2"]], ids=str)
def test_home_that_is_a_file(tmp_path: Path, arguments: list[str]) -> None:
    home = tmp_path / "file"
    home.touch()
    result = run(*arguments, home=tmp_path, extra={"MAXI_MLX_HOME": str(home)})
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"maxi-mlx: environment MAXI_MLX_HOME: {home} is not a folder, and maxi-mlx keeps its "
        "models in it; set MAXI_MLX_HOME to one\n"
    )


def test_certificate_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    result = run("serve", "--port", "0", "--tls-cert", str(tmp_path / "cert.pem"), home=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "cert.pem" in result.stderr


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from maxi_mlx.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'asyncio', 'aiohttp', 'msgspec', 'mlx', 'numpy', 'maxi_mlx.cli.serve'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    line = "serve Answer OpenAI's API with the models on this machine."
    assert line in [" ".join(each.split()) for each in result.stdout.splitlines()]
    assert result.stdout.endswith("heavy: []\n")


def test_bare_command_shows_help(tmp_path: Path) -> None:
    result = run(home=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("Usage: maxi-mlx [OPTIONS] COMMAND")


def test_reader_that_leaves_early(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "maxi_mlx", "list"],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
