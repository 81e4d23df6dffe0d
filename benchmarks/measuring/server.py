"""Runs `maxi-mlx serve` with one model on a free port of this machine, for as long as a block."""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

START_S = 60.0
STOP_S = 15.0


@asynccontextmanager
async def running_server(folder: Path) -> AsyncIterator[str]:
    """Gives the URL up to and with /v1. The model's name there is the folder's."""
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "maxi_mlx", "serve", "--port", str(port)),
            *("--model-dir", str(folder.parent), "--model", folder.name),
            *("--log-level", "warning"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            if not await _answers(process, port):
                log.seek(0)
                words = log.read().decode(errors="replace").strip()
                raise SystemExit(f"maxi-mlx serve did not start:\n{words}")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            await _stop(process)


async def _answers(process: asyncio.subprocess.Process, port: int) -> bool:
    """Whether /health answers before the process ends or the time is over."""
    deadline = time.monotonic() + START_S
    async with aiohttp.ClientSession() as session:
        while process.returncode is None and time.monotonic() < deadline:
            try:
                async with session.get(f"http://127.0.0.1:{port}/health"):
                    return True
            except aiohttp.ClientConnectionError:
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
