"""mlx_lm.server with the conditions that our server has: run as a script, takes its flags.

MLX gets the BLAS that `maxi-mlx serve` gives it, by the same call. The server's queue of
connections holds all that come at once: by default it holds 5, and whoever finds it full tries
again a second later, which would decide every comparison before a token is drawn. And it tells of
its memory where ours does, so that both are measured by MLX's own count.
"""

from __future__ import annotations

import json
import socketserver
from typing import Any

from maxi_mlx.engine import device

QUEUE_SIZE = 128
STATS_PATH = "/v1/cache/stats"


def main() -> None:
    device.prepare("auto")  # before MLX is first imported
    from mlx_lm import server

    socketserver.TCPServer.request_queue_size = QUEUE_SIZE
    _tell_memory(server.APIHandler)
    server.main()


def _tell_memory(handler: Any) -> None:
    others = handler.do_GET

    def do_get(request: Any) -> None:
        if request.path != STATS_PATH:
            others(request)
            return
        figures = device.memory(0)
        memory = {"active_bytes": figures.active_bytes, "peak_bytes": figures.peak_bytes}
        body = json.dumps({"memory": memory}).encode()
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    handler.do_GET = do_get


if __name__ == "__main__":
    main()
