"""A server of a command's own, in a process that ends with the command, however that ends."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.core.errors import SetupError

END_WITHIN_S = 5.0
NO_REASON = "the server that this command started ended with exit code {code}"


class OwnServer:
    """Owns the process. Used by the command's main thread alone."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """``arguments`` are for `maxi-mlx serve`."""
        # Nobody else on this machine is to use it.
        self._key = secrets.token_urlsafe(24)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "maxi_mlx", "serve", "--for-command", *arguments],
            env={**os.environ, "MAXI_MLX_API_KEY": self._key},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,  # Ctrl-C is for the command, which decides what it ends
        )

    def connection(self) -> Connection:
        """Once the server answers. Raises SetupError with its own words where it can't."""
        assert self._process.stdout is not None
        address = self._process.stdout.readline().strip()
        if not address:
            raise SetupError(self._last_words())
        return Connection(address, api_key=self._key)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()  # which it takes as the word to end
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            process.stdout.close()
            self._log.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        told = [line.removeprefix("maxi-mlx: ") for line in lines if line.startswith("maxi-mlx: ")]
        return told[-1] if told else NO_REASON.format(code=code)
