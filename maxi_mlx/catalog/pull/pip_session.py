"""A program of its own: finds one wheel by pip's configuration and fetches it, going on where an
earlier run stopped. Writes JSON lines for `wheel` to read.

It asks pip for its ready-made session and finder, because only they have all of the user's set-up:
indexes, find-links, proxies, certificates, netrc, keyring. They are not a public interface. When
they change, this program ends with a traceback and no "failed" line, and `wheel` takes
`pip download` instead, which can't resume.
"""

from __future__ import annotations

import importlib
import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maxi_mlx.catalog.pull.reasons import plain_words, status_words

CHUNK_BYTES = 16 * 1024  # small, so that a slow connection too shows that it goes on
REPORT_S = 0.1
# Attempts in a row that bring nothing new; pip's session retries each of them by itself too.
MAX_BARREN_ATTEMPTS = 3
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class Broken(Exception):
    """The transfer stopped for a reason that may pass."""


class Hopeless(Exception):
    """Trying again would not help; the text is for the user."""


def report(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)  # noqa: T201 (this is the output)


class NetworkTrouble(logging.Handler):
    """Reads what pip only logs: why index pages were passed over, which is collected, and that a
    connection is tried again, which can take a minute and is reported."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        template, values = str(record.msg), record.args
        if not isinstance(values, tuple):
            return
        if template.startswith("Could not fetch"):
            page, reason = values
            self.reasons.append(f"{page}: {plain_words(reason)}")
        elif template.startswith("Retrying"):
            _, reason, _ = values
            report("retry", reason=plain_words(reason))

    def listen_to(self, *names: str) -> None:
        for name in names:
            log = logging.getLogger(name)
            log.setLevel(logging.DEBUG)
            log.addHandler(self)
            log.propagate = False


class Transfer:
    """Fills ``part`` up to ``size`` bytes from one link, by one pip session."""

    def __init__(self, session: Any, link: Any, *, part: Path, size: int) -> None:
        self._session = session
        self._link = link
        self._part = part
        self._size = size
        self._host = urlsplit(link.url).hostname or link.url
        self._network_errors: tuple[type[Exception], ...] = (
            OSError,  # requests' errors are OSErrors
            importlib.import_module("pip._internal.exceptions").PipError,
            importlib.import_module("pip._vendor.urllib3.exceptions").HTTPError,
        )

    def run(self) -> None:
        num_barren = 0
        while (before := self._have()) < self._size:
            reason = "the connection was closed early"
            try:
                self._attempt(before)
            except Broken as error:
                reason = str(error)
            if self._have() >= self._size:
                return
            num_barren = 0 if self._have() > before else num_barren + 1
            if num_barren == MAX_BARREN_ATTEMPTS:
                raise Hopeless(f"{self._host}: {reason}")
            report("broken", reason=reason)
            time.sleep(num_barren)

    def _have(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _attempt(self, have: int) -> None:
        if self._link.is_file:
            source = Path(self._link.file_path)
            self._expect_size(source.stat().st_size)
            with source.open("rb") as file:
                self._copy(iter(lambda: file.read(CHUNK_BYTES), b""), have=0)
            return
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        try:
            response = self._session.get(
                self._link.url_without_fragment, headers=headers, stream=True
            )
        except self._network_errors as error:
            raise Broken(plain_words(error)) from error
        with response:
            self._copy(self._body(response), have=self._accepted_offset(response, have))

    def _accepted_offset(self, response: Any, have: int) -> int:
        """Where the answer's body begins: at ``have``, or at 0 where ranges aren't known."""
        status = response.status_code
        if status == 200:
            length = response.headers.get("Content-Length")
            if length is not None:
                self._expect_size(int(length))
            return 0
        if status == 206:
            content_range = response.headers.get("Content-Range", "")
            found = re.match(r"bytes (\d+)-", content_range)
            if found and int(found[1]) == have:
                return have
        if status in (206, 416):
            self._part.unlink()
            raise Broken(f"the server can't go on at byte {have}")
        if status in TRANSIENT_STATUS:
            raise Broken(status_words(status))
        hint = " (pip has no valid credentials for it)" if status in (401, 403, 407) else ""
        raise Hopeless(f"{self._host}: {status_words(status)}{hint}")

    def _expect_size(self, size: int) -> None:
        if size != self._size:
            raise Hopeless(
                f"{self._host} has another file under this name: {size} bytes, "
                f"where {self._size} were expected"
            )

    def _body(self, response: Any) -> Iterator[bytes]:
        try:
            # Undecoded: the digest is of the file as it is, whatever a server wraps around it.
            yield from response.raw.stream(CHUNK_BYTES, decode_content=False)
        except self._network_errors as error:
            raise Broken(plain_words(error)) from error

    def _copy(self, chunks: Iterator[bytes], *, have: int) -> None:
        report("start", host=self._host, at=have)
        next_report_s = 0.0
        with self._part.open("ab" if have else "wb", buffering=0) as file:
            for chunk in chunks:
                file.write(chunk)
                have += len(chunk)
                if have > self._size:
                    raise Hopeless(f"{self._host} sends more than the file's {self._size} bytes")
                if time.monotonic() >= next_report_s:
                    report("at", bytes=have)
                    next_report_s = time.monotonic() + REPORT_S
        report("at", bytes=have)


def find_link(command: Any, options: Any, *, package: str, version: str) -> Any:
    """The wheel's link on the first of pip's sources that has it."""
    trouble = NetworkTrouble()
    trouble.listen_to("pip._internal.index.collector", "pip._vendor.urllib3.connectionpool")
    session = command.get_default_session(options)
    finder = command._build_package_finder(options=options, session=session)
    specifiers = importlib.import_module("pip._vendor.packaging.specifiers")
    candidate = finder.find_best_candidate(
        package, specifier=specifiers.SpecifierSet(f"=={version}")
    ).best_candidate
    if candidate is None:
        reasons = "; ".join(trouble.reasons)
        raise Hopeless(reasons or "none of the places where pip looks for packages has it")
    return candidate.link


def main(arguments: list[str]) -> int:
    package, version, part, size = arguments
    command = importlib.import_module("pip._internal.commands").create_command("download")
    options, _ = command.parse_args(
        ["--no-input", "--no-deps", "--only-binary", package, f"{package}=={version}"]
    )
    try:
        with command.main_context():
            link = find_link(command, options, package=package, version=version)
            session = command.get_default_session(options)
            Transfer(session, link, part=Path(part), size=int(size)).run()
    except Hopeless as error:
        report("failed", reason=str(error))
        return 1
    except BrokenPipeError:
        return 1  # nobody reads the reports any more
    except OSError as error:  # the disk's; the network's are Broken or Hopeless by now
        report("failed", reason=plain_words(error))
        return 1
    except KeyboardInterrupt:
        return 130
    report("finished")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
