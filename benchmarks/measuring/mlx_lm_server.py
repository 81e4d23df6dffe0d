"""mlx_lm.server with the conditions that our server has: run as a script, takes its flags.

MLX gets the BLAS that `maxi-mlx serve` gives it, by the same call. And the server's queue of
connections holds all that come at once: by default it holds 5, and whoever finds it full tries
again a second later, which would decide every comparison before a token is drawn.
"""

from __future__ import annotations

import socketserver

from maxi_mlx.engine import device

QUEUE_SIZE = 128


def main() -> None:
    device.prepare("auto")  # before MLX is first imported
    from mlx_lm import server

    socketserver.TCPServer.request_queue_size = QUEUE_SIZE
    server.main()


if __name__ == "__main__":
    main()
