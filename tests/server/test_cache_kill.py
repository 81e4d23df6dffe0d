"""A server that is killed as it writes prompts to disk: the next one starts clean, finds what was
written, and answers as if nothing was."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NUM_KILLS = 6
NUM_PROMPTS = 12
PROMPT_TOKENS = 3000


def prompt(number: int) -> list[int]:
    return [10 + (number * 37 + place * place) % 400 for place in range(PROMPT_TOKENS)]


class Server:
    """`maxi-mlx serve` in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self._address = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self._address + path, timeout=60) as answer:
            return json.load(answer)

    def ask(self, number: int, **more: Any) -> tuple[str, int]:
        """The text, and how many of the prompt's tokens were cached."""
        body = {"model": "long", "prompt": prompt(number), "temperature": 0, "max_tokens": 4}
        request = urllib.request.Request(
            self._address + "/v1/completions",
            json.dumps({**body, **more}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            got = json.load(answer)
        cached = got["usage"]["prompt_tokens_details"]["cached_tokens"]
        return got["choices"][0]["text"], cached

    def wait_ready(self) -> None:
        end_s = time.monotonic() + 120
        while True:
            assert self.process.poll() is None
            try:
                if self.get("/health")["status"] == "ok":
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            assert time.monotonic() < end_s
            time.sleep(0.05)


@contextmanager
def serving(model: Path, folder: Path, log: Path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "maxi_mlx", "serve", "--port", str(port)]
    command += ["--model-dir", str(model.parent), "--model", "long", "--cache-dir", str(folder)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ)
    try:
        server = Server(process, port)
        server.wait_ready()
        yield server
    finally:
        process.kill()
        process.wait()


def kill_while_it_writes(server: Server, dice: random.Random) -> None:
    """Several prompts at once, and the end at any time from the first on."""

    def ask(number: int) -> None:
        # It is killed, as was to be.
        with suppress(OSError, ValueError, HTTPException):
            server.ask(number)

    def num_files() -> int:
        return int(server.get("/v1/cache/stats")["prefix_cache"]["disk"]["files"])

    numbers = dice.sample(range(NUM_PROMPTS), 4)
    num_wanted = num_files() + dice.randint(1, 14)
    threads = [threading.Thread(target=ask, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    # By what was written, as machines differ; or by time, where most is there already and is read.
    end_s = time.monotonic() + dice.uniform(0.5, 3)
    while num_files() < num_wanted and time.monotonic() < end_s:
        time.sleep(0.01)
    server.process.send_signal(signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert server.process.wait() == -signal.SIGKILL


@pytest.mark.timeout(900)
def test_killed_servers_lose_no_more_than_they_were_writing(
    long_model: Path, tmp_path: Path
) -> None:
    folder, dice = tmp_path / "kept", random.Random(1)
    logs = [tmp_path / f"{number}.log" for number in range(NUM_KILLS + 2)]
    with serving(long_model, tmp_path / "other", logs[-1]) as server:
        texts = [server.ask(number, cache=False)[0] for number in range(NUM_PROMPTS)]
    num_cached = []
    for log in logs[:NUM_KILLS]:
        with serving(long_model, folder, log) as server:
            number = dice.randrange(NUM_PROMPTS)
            text, cached = server.ask(number)
            assert text == texts[number]
            num_cached.append(cached)
            kill_while_it_writes(server, dice)
    with serving(long_model, folder, logs[NUM_KILLS]) as server:
        answers = [server.ask(number) for number in range(NUM_PROMPTS)]
        assert [text for text, _ in answers] == texts
        disk = server.get("/v1/cache/stats")["prefix_cache"]["disk"]
        assert disk["fault"] is None
        assert disk["dropped"] == 0
        server.process.terminate()
        assert server.process.wait(timeout=120) == 0
    assert sum(cached > 0 for _, cached in answers) >= NUM_PROMPTS // 2
    assert any(num_cached[1:])
    assert not list(folder.rglob("*.tmp"))
    for log in logs:
        said = log.read_text()
        assert "WARNING" not in said, said
        assert "Traceback" not in said, said
