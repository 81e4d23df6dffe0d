"""Runs a server with one model on a free port of this machine, for as long as a block.

Ours by `maxi-mlx serve`, mlx-lm's own by `mlx_lm_server.py`: the same interpreter, the same MLX
and the same BLAS under both. Ours gets a folder of its own for its prompt cache, so that it never
knows a prompt from an earlier run.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from measuring.failure import MeasurementFailed

START_S = 300.0  # a large model takes minutes to load
STOP_S = 15.0
LAUNCHER = Path(__file__).with_name("mlx_lm_server.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that answers. ``model`` is what its clients call the model."""

    name: str
    port: int
    model: str
    pid: int

    @property
    def url(self) -> str:
        """Up to and with /v1."""
        return f"http://127.0.0.1:{self.port}/v1"


@asynccontextmanager
async def running_server(
    folder: Path, *, flags: Sequence[str] = (), cache_dir: Path | None = None
) -> AsyncIterator[Running]:
    """Ours, with its default settings but for ``flags``. ``cache_dir``: what an earlier server
    left, for a restart."""
    flags = ("--model", folder.name, *flags)
    async with _ours(folder.parent, folder.name, flags=flags, cache_dir=cache_dir) as server:
        yield server


@asynccontextmanager
async def running_with_none_loaded(
    models_dir: Path, *, flags: Sequence[str] = ()
) -> AsyncIterator[Running]:
    """Ours, where each request has to name its model."""
    async with _ours(models_dir, "", flags=flags, cache_dir=None) as server:
        yield server


@asynccontextmanager
async def _ours(
    models_dir: Path, model: str, *, flags: Sequence[str], cache_dir: Path | None
) -> AsyncIterator[Running]:
    port = _free_port()
    arguments = ["-m", "maxi_mlx", "serve", "--port", str(port), "--log-level", "warning"]
    arguments += ["--model-dir", str(models_dir), *flags]
    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as own_dir:
        arguments += ["--cache-dir", str(cache_dir or own_dir)]
        async with _running("maxi-mlx", arguments, port=port) as pid:
            yield Running(name="maxi-mlx", port=port, model=model, pid=pid)


@asynccontextmanager
async def running_mlx_lm_server(
    folder: Path, *, flags: Sequence[str] = ()
) -> AsyncIterator[Running]:
    """mlx-lm's. It calls the model that it was started with ``default_model``."""
    port = _free_port()
    arguments = [str(LAUNCHER), "--model", str(folder), "--port", str(port)]
    arguments += ["--log-level", "WARNING", *flags]
    async with _running("mlx_lm.server", arguments, port=port) as pid:
        yield Running(name="mlx_lm.server", port=port, model="default_model", pid=pid)


@asynccontextmanager
async def _running(name: str, arguments: Sequence[str], *, port: int) -> AsyncIterator[int]:
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            if not await _answers(process, port):
                log.seek(0)
                words = log.read().decode(errors="replace").strip()
                raise MeasurementFailed(f"{name} did not start:\n{words}")
            yield process.pid
        finally:
            await _stop(process)


async def _answers(process: asyncio.subprocess.Process, port: int) -> bool:
    """Whether /health says that all is well, the model loaded, before the process ends or the time
    is over."""
    deadline = time.monotonic() + START_S
    async with aiohttp.ClientSession() as session:
        while process.returncode is None and time.monotonic() < deadline:
            try:
                async with session.get(f"http://127.0.0.1:{port}/health") as response:
                    if (await response.json())["status"] == "ok":
                        return True
            except aiohttp.ClientConnectionError:
                pass  # it does not listen yet
            await asyncio.sleep(0.1)
    return False


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
