"""Images of a conversation as text, and then as token ids, for the prompt builder.

Pure but for the tokenizer's table; for worker threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Image
from maxi_mlx.engine.vision.decoding import decode_image
from maxi_mlx.engine.vision.pictures import Picture, picture_ids
from maxi_mlx.engine.vision.sight import PreparedImage, Sight

MAX_IMAGES = 100


def prepare_images(sight: Sight, images: Sequence[Image]) -> list[PreparedImage]:
    """Raises InvalidRequest where one can't be read."""
    if len(images) > MAX_IMAGES:
        raise InvalidRequest(
            f"The request has {len(images)} images; at most {MAX_IMAGES} are read.",
            param=images[MAX_IMAGES].path,
        )
    return [sight.prepare(decode_image(image)) for image in images]


def put_in(sight: Sight, text: str, images: Sequence[PreparedImage]) -> str:
    """The template's text with all of each image's tokens."""
    first, *rest = text.split(sight.placeholder)
    if len(rest) != len(images):
        raise InvalidRequest(
            f"The messages have {len(images)} images, but the prompt made of them has "
            f"{len(rest)} places for one. {sight.placeholder} can't be written in a text, and "
            "images can't stand where the model's chat template shows none."
        )
    pieces = [image.text + after for image, after in zip(images, rest, strict=True)]
    return first + "".join(pieces)


def place_pictures(
    sight: Sight,
    token_ids: Sequence[int],
    images: Sequence[PreparedImage],
    *,
    token_id: int,
    salt: bytes,
) -> tuple[list[int], tuple[Picture, ...]]:
    """The same ids with those of the images, and where these are. ``salt`` is what images' vectors
    depend on besides the pixels."""
    places = [place for place, each in enumerate(token_ids) if each == token_id]
    counts = [image.text.count(sight.token) for image in images]
    if len(places) != sum(counts):
        raise InvalidRequest(
            f"{sight.token} is the model's own sign for an image; it can't be written in a text."
        )
    placed, pictures, begun = list(token_ids), [], 0
    for image, count in zip(images, counts, strict=True):
        own = places[begun : begun + count]
        for place, picture_id in zip(own, picture_ids(salt + image.digest, count), strict=True):
            placed[place] = picture_id
        pictures.append(Picture(own[0], own[-1] + 1, image.crops, image.grid))
        begun += count
    if pictures and pictures[-1].end == len(placed):
        raise InvalidRequest("The prompt ends in an image: there is nothing to go on from.")
    return placed, tuple(pictures)
