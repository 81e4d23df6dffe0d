"""A package index on this machine, which can be as awkward as real ones are."""

from __future__ import annotations

import base64
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


@dataclass
class IndexServer:
    """Serves one wheel. Each request for the file is kept in ``ranges`` by its Range header.

    ``stall_at``: stop after so many bytes of a body, until ``resume`` is set or the server is
    closed. ``cut_at``: close the connection after so many bytes, once.
    """

    wheel: Path
    content: bytes
    knows_ranges: bool = True
    stall_at: int | None = None
    cut_at: int | None = None
    credentials: str | None = None
    has_package: bool = True
    ranges: list[str | None] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    resume: threading.Event = field(default_factory=threading.Event)
    is_closing: bool = False

    def __post_init__(self) -> None:
        handler = type("Handler", (_Handler,), {"index": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}/simple"

    def close(self) -> None:
        self.is_closing = True
        self.resume.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    index: IndexServer

    def do_GET(self) -> None:
        index, path = self.index, urlsplit(self.path).path  # a proxy is asked for whole URLs
        index.hosts.append(self.headers["Host"])
        if index.credentials and self.headers.get("Authorization") != _basic(index.credentials):
            self._send(401, b"", {"WWW-Authenticate": 'Basic realm="index"'})
        elif path == "/simple/tiny-wheel/" and index.has_package:
            page = f'<!DOCTYPE html><a href="/files/{index.wheel.name}">{index.wheel.name}</a>'
            self._send(200, page.encode(), {"Content-Type": "text/html"})
        elif path == f"/files/{index.wheel.name}":
            self._send_wheel()
        else:
            self._send(404, b"", {})

    def _send_wheel(self) -> None:
        asked = self.headers.get("Range")
        self.index.ranges.append(asked)
        found = re.fullmatch(r"bytes=(\d+)-", asked or "")
        if found and self.index.knows_ranges:
            start, end = int(found[1]), len(self.index.content)
            headers = {"Content-Range": f"bytes {start}-{end - 1}/{end}"}
            self._send(206, self.index.content[start:], headers)
        else:
            self._send(200, self.index.content, {})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        is_file = self.path.endswith(".whl")
        if is_file and self.index.cut_at is not None:
            self.wfile.write(body[: self.index.cut_at])
            self.index.cut_at = None
            self.close_connection = True
        elif is_file and self.index.stall_at is not None:
            self.wfile.write(body[: self.index.stall_at])
            self.wfile.flush()
            self.index.resume.wait()
            if self.index.is_closing:
                self.close_connection = True
            else:
                self.wfile.write(body[self.index.stall_at :])
        else:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _basic(credentials: str) -> str:
    return "Basic " + base64.b64encode(credentials.encode()).decode()
