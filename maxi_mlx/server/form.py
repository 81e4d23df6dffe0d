"""Reads a multipart form with one file, which goes to disk beyond a small size.

The file's name and type are not looked at: they lie. Whatever is wrong with the form is a 400.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from aiohttp import BodyPartReader, ClientError, MultipartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from maxi_mlx.core.errors import InvalidRequest, TooLarge, UnsupportedMedia

_IN_MEMORY_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 18
_MAX_FIELD_BYTES = 1 << 16
_MAX_FIELDS = 1000
# Boundaries, headers and texts beside the file.
_AROUND_FILE_BYTES = 1 << 20

_FILE = "file"

# What aiohttp raises for forms that are not what they claim to be.
_FAULTS = (
    AssertionError,
    ClientError,
    HttpProcessingError,
    LookupError,
    RuntimeError,
    ValueError,
    web.RequestPayloadError,
)


@dataclass(slots=True)
class Form:
    """``fields`` are the texts, in their order. ``file`` is open as long as the form is lent."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    file: BinaryIO | None = None


@asynccontextmanager
async def received_form(request: web.Request, *, limit_bytes: int) -> AsyncIterator[Form]:
    """The form of a request whose file has ``limit_bytes`` at most."""
    if request.content_type != "multipart/form-data":
        raise UnsupportedMedia(
            f"This endpoint takes a form with a file, not {request.content_type!a}. "
            "Send the body as multipart/form-data."
        )
    if (request.content_length or 0) > limit_bytes + _AROUND_FILE_BYTES:
        raise _too_large(limit_bytes)
    form = Form()
    try:
        await _read(request, form, limit_bytes)
        yield form
    finally:
        if form.file is not None:
            # Not awaited: a client that has left cancels whatever its handler waits for.
            asyncio.get_running_loop().run_in_executor(None, form.file.close)


async def _read(request: web.Request, form: Form, limit_bytes: int) -> None:
    try:
        reader = await request.multipart()
        for _ in range(_MAX_FIELDS):
            part = await reader.next()
            if part is None:
                return
            await _read_part(part, form, limit_bytes)
    except _FAULTS as error:
        raise InvalidRequest(
            "The form broke off, or is not multipart/form-data as its headers say."
        ) from error
    raise InvalidRequest(f"The form has more than {_MAX_FIELDS} parts.")


async def _read_part(part: MultipartReader | BodyPartReader, form: Form, limit_bytes: int) -> None:
    if not isinstance(part, BodyPartReader):
        raise InvalidRequest("The form has a form in one of its parts.")
    if part.name == _FILE:
        if form.file is not None:
            raise InvalidRequest("The form has several files: send one.", param=_FILE)
        # Closed by whoever lends the form.
        form.file = cast(BinaryIO, tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115
        await _store(part, form.file, limit_bytes)
    elif part.name and part.filename is None:
        form.fields.append((part.name, await _text(part)))
    else:
        await part.release()


async def _store(part: BodyPartReader, file: BinaryIO, limit_bytes: int) -> None:
    num_bytes = 0
    while chunk := await part.read_chunk(_CHUNK_BYTES):
        num_bytes += len(chunk)
        if num_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        if num_bytes <= _IN_MEMORY_BYTES:
            file.write(chunk)
        else:
            await asyncio.to_thread(file.write, chunk)


async def _text(part: BodyPartReader) -> str:
    data = b""
    while chunk := await part.read_chunk(_CHUNK_BYTES):
        data += chunk
        if len(data) > _MAX_FIELD_BYTES:
            raise InvalidRequest(
                f"'{part.name}' has more than {_MAX_FIELD_BYTES} bytes.", param=part.name
            )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"'{part.name}' is not UTF-8 text.", param=part.name) from error


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"The file is larger than this server takes ({limit_bytes} bytes). Send it in parts or "
        "more strongly compressed, or raise the limit with --max-audio-size.",
        param=_FILE,
    )
