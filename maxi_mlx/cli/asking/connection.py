"""One server over HTTP, for a command that has nothing else to do than wait for it. Blocks."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maxi_mlx.cli.asking.stream import End, Piece, StreamReader
from maxi_mlx.core.errors import NoAnswer

# A server that works on an answer says so every few seconds.
SILENCE_S = 60.0
READ_BYTES = 64 * 1024


class Connection:
    """Each question has a socket of its own, so that leaving one off ends that answer alone."""

    def __init__(
        self, url: str, *, api_key: str | None = None, certificate: Path | None = None
    ) -> None:
        self.url = url
        self.api_key = api_key
        self._certificate = certificate

    def get(self, path: str) -> Any:
        """The JSON answer. Raises NoAnswer."""
        return self.send("GET", path)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON answer, None for an empty one. Raises NoAnswer."""
        with self._response(method, path, body) as response:
            answer = response.read()
        try:
            return json.loads(answer) if answer else None
        except ValueError as error:
            raise NoAnswer(f"the server at {self.url} does not answer in JSON") from error

    def ask(self, body: Mapping[str, Any]) -> Iterator[Piece]:
        """A chat completion, piece by piece as it comes; closing the generator ends it. The last
        piece is an `End`. Raises NoAnswer."""
        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        reader = StreamReader()
        with self._response("POST", "/v1/chat/completions", streamed) as response:
            while data := response.read1(READ_BYTES):
                for piece in reader.feed(data):
                    yield piece
                    if isinstance(piece, End):
                        return
        raise NoAnswer(f"the server at {self.url} ended in the middle of the answer")

    @contextmanager
    def _response(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Iterator[http.client.HTTPResponse]:
        headers = {"Content-Type": "application/json"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        connection = self._opened()
        try:
            encoded = None if body is None else json.dumps(body).encode()
            connection.request(method, path, body=encoded, headers=headers)
            response = connection.getresponse()
            if not (response.getheader("Server") or "").startswith("maxi-mlx/"):
                raise NoAnswer(f"another program than maxi-mlx answers at {self.url}")
            if response.status != 200:
                raise self._refusal(response)
            yield response
        except (OSError, UnicodeError, http.client.HTTPException) as error:  # a host's odd name
            raise NoAnswer(
                f"the server at {self.url} does not answer any more: {_reason(error)}"
            ) from error
        finally:
            connection.close()

    def _opened(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=SILENCE_S)
        context = ssl.create_default_context()
        if self._certificate is not None:
            # The very certificate that the server was told to use; its names are of no concern.
            context.load_verify_locations(self._certificate)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.check_hostname = False
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=SILENCE_S, context=context
        )

    def wants_key(self) -> NoAnswer:
        return NoAnswer(
            f"the server at {self.url} wants its API key; set MAXI_MLX_API_KEY, or api_key_file in "
            "the configuration",
            code="invalid_api_key",
        )

    def _refusal(self, response: http.client.HTTPResponse) -> NoAnswer:
        if response.status == 401:
            return self.wants_key()
        try:
            error = json.load(response)["error"]
            if isinstance(error, str):  # as Ollama's API has it
                return NoAnswer(error)
            return NoAnswer(str(error["message"]), code=error.get("code"))
        except (ValueError, KeyError, TypeError):
            return NoAnswer(f"the server at {self.url} answers {response.status} {response.reason}")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
