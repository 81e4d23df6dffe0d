"""A Hugging Face hub on this machine, which answers as the real one does to what is asked here.

with FakeHub({"org/name": files}) as hub:    hub.url is its address
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c" * 40
LARGE = (".safetensors", ".bin", ".gguf", "tokenizer.json")

Files = Mapping[str, bytes]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@dataclass
class FakeHub:
    """``repositories`` are files by name; ``revisions`` are the names that stand for `COMMIT`.

    ``cut_at``: close the connection of each of the next ``num_cuts`` bodies of a weights file
    after so many bytes. ``stall_at``: stop there until ``go_on`` is set. ``damaged`` files come
    with another last byte. ``token`` is what gated repositories want.
    """

    repositories: Mapping[str, Files]
    revisions: tuple[str, ...] = ("main", "v2", COMMIT)
    gated: frozenset[str] = frozenset()
    token: str = "hf_good"
    damaged: set[str] = field(default_factory=set)
    cut_at: int | None = None
    num_cuts: int = 0
    stall_at: int | None = None
    knows_ranges: bool = True
    storage: str | None = None  # where large files are sent for, at another address
    fails_with: int | None = None
    go_on: threading.Event = field(default_factory=threading.Event)
    stalled: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)  # METHOD path, and a Range behind it
    shown_tokens: list[str] = field(default_factory=list)  # the paths that came with one

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def fetched(self) -> list[str]:
        """The files' names, in the order in which they were asked for; with their ranges."""
        return [text.rpartition("/")[2] for text in self.asked if "/resolve/" in text]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def do_GET(self) -> None:
        hub, place = self.hub, urlsplit(self.path)
        path = unquote(place.path)
        hub.asked.append(f"GET {path} {self.headers.get('Range', '')}".strip())
        if "Authorization" in self.headers:
            hub.shown_tokens.append(path)
        if hub.fails_with is not None:
            self._send(hub.fails_with, b"<html>no JSON here</html>")
        elif path == "/api/models":
            [wanted] = parse_qs(place.query)["search"]
            near = [{"id": name} for name in hub.repositories if wanted[:4] in name]
            self._send(200, json.dumps(near).encode())
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            self._list(found[1], found[2])
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(found[1], found[3])
        else:
            self._send(404, b"")

    def _list(self, name: str, revision: str) -> None:
        files = self.hub.repositories.get(name)
        if files is None:
            self._refuse(404 if self._has_token else 401, "RepoNotFound")
        elif revision not in self.hub.revisions:
            self._refuse(404, "RevisionNotFound")
        else:
            siblings = [_sibling(file, content) for file, content in files.items()]
            info = {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings}
            self._send(200, json.dumps(info).encode())

    def _resolve(self, name: str, file: str) -> None:
        if name in self.hub.gated and not self._has_token:
            self._refuse(403 if "Authorization" in self.headers else 401, "GatedRepo")
            return
        if self.hub.storage is not None and file.endswith(LARGE):
            self._send(302, b"", {"Location": self.hub.storage + self.path})
            return
        content = self.hub.repositories[name][file]
        if file in self.hub.damaged:
            content = content[:-1] + bytes([content[-1] ^ 1])
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if found and self.hub.knows_ranges:
            start = int(found[1])
            more = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
            self._send(206, content[start:], more, is_weights=file.endswith(".safetensors"))
        else:
            self._send(200, content, is_weights=file.endswith(".safetensors"))

    @property
    def _has_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {self.hub.token}"

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b'{"error": "refused"}', {"X-Error-Code": code})

    def _send(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        is_weights: bool = False,
    ) -> None:
        self.send_response(status)
        for header, value in (headers or {}).items():
            self.send_header(header, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        hub = self.hub
        if is_weights and hub.cut_at is not None and hub.num_cuts:
            hub.num_cuts -= 1
            self.wfile.write(body[: hub.cut_at])
            self.close_connection = True
        elif is_weights and hub.stall_at is not None:
            self.wfile.write(body[: hub.stall_at])
            self.wfile.flush()
            hub.stalled.set()
            hub.go_on.wait()
            self.wfile.write(body[hub.stall_at :])
        else:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _sibling(name: str, content: bytes) -> dict[str, Any]:
    sha1 = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    sibling: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": sha1}
    if name.endswith(LARGE):
        sha256 = hashlib.sha256(content).hexdigest()
        sibling["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 134}
    return sibling
