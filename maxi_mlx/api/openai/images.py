"""Images in request bodies, of whatever wire format: base64 to bytes, and their place in a text.

What the bytes hold is found by who reads them. The server asks nobody for an image: an address on
the network is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass

from maxi_mlx.api.openai.schema import ImageUrl
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import IMAGE_MARK, Image

MAX_IMAGE_BYTES = 20_000_000

_DATA_URL = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[\w.+-]+)*;base64,",
    re.ASCII | re.IGNORECASE,
)
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Content:
    """A message's text, with marks where its images are."""

    text: str
    images: tuple[Image, ...] = ()


def joined(pieces: Sequence[str | Image]) -> Content:
    """Texts stand on lines of their own; between a text and an image comes nothing."""
    images = tuple(piece for piece in pieces if isinstance(piece, Image))
    text, after_text = "", False
    for piece in pieces:
        if isinstance(piece, Image):
            text, after_text = text + IMAGE_MARK, False
            continue
        if images:
            piece = piece.replace(IMAGE_MARK, "")
        text, after_text = f"{text}\n{piece}" if after_text else text + piece, True
    return Content(text, images)


def image_of_url(given: ImageUrl | str | None, path: str) -> Image:
    """Of a part's ``image_url``, which stands at ``path``."""
    if isinstance(given, ImageUrl):
        given, path = given.url, f"{path}.url"
    if not given:
        raise InvalidRequest(f"'{path}' is missing.", param=path)
    found = _DATA_URL.match(given)
    if found is None:
        if given[:8].lower().startswith(("http://", "https://")):
            raise InvalidRequest(
                f"'{path}' is an address on the network, and this server fetches nothing from it. "
                "Send the image itself, as a data: URL (data:image/png;base64,…).",
                param=path,
            )
        raise InvalidRequest(
            f"'{path}' must be a data: URL in base64 (data:image/png;base64,…), not "
            f"{given[:40]!r}.",
            param=path,
        )
    kind = found["type"]
    if kind is not None and not kind.lower().startswith("image/"):
        raise InvalidRequest(f"'{path}' is {kind[:40]!r}, which is no image.", param=path)
    return image_of_base64(given[found.end() :], path)


def image_of_base64(text: str, path: str) -> Image:
    if len(text) > MAX_IMAGE_BYTES * 1.5:
        raise _too_large(path)
    try:
        text = _SPACE.sub("", text).rstrip("=")
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"'{path}' is not valid base64.", param=path) from None
    if not data:
        raise InvalidRequest(f"'{path}' is empty.", param=path)
    if len(data) > MAX_IMAGE_BYTES:
        raise _too_large(path)
    return Image(data, path)


def _too_large(path: str) -> InvalidRequest:
    return InvalidRequest(
        f"'{path}' has more than the {MAX_IMAGE_BYTES // 10**6} MB that an image may have.",
        param=path,
    )
