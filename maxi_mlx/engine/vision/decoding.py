"""An image file's bytes to its pixels, as a person would see them. Pure; for worker threads."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MAX_PIXELS = 50_000_000
_NAMES = "PNG, JPEG, WebP, GIF or BMP"


def decode_image(image: Image) -> Pillow.Image:
    """RGB, turned upright, on white where it is transparent; the first frame of several. Raises
    InvalidRequest."""
    try:
        opened = Pillow.open(io.BytesIO(image.data), formats=FORMATS)
        _check_size(opened.size, image.path)
        return _upright(opened)
    except InvalidRequest:
        raise
    except UnidentifiedImageError:
        raise InvalidRequest(
            f"'{image.path}' is no image of a kind that is read here: {_NAMES}.", param=image.path
        ) from None
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning):
        raise InvalidRequest(
            f"'{image.path}' has more than the {MAX_PIXELS:,} pixels that are read at most.",
            param=image.path,
        ) from None
    except Exception as error:
        # Pillow's readers raise all kinds of things on files that are cut off or spoilt.
        raise InvalidRequest(
            f"'{image.path}' is a broken image: {error}.", param=image.path
        ) from None


def _check_size(size: tuple[int, int], path: str) -> None:
    width, height = size
    if width * height > MAX_PIXELS:
        raise InvalidRequest(
            f"'{path}' has {width} × {height} pixels, but at most {MAX_PIXELS:,} are read. Send it "
            "smaller: models see less than that anyway.",
            param=path,
        )


def _upright(opened: Pillow.Image) -> Pillow.Image:
    opened.load()
    upright = ImageOps.exif_transpose(opened)
    if upright.mode.startswith("I"):
        # Greys of 16 bits: Pillow would make white of all but the darkest.
        upright = Pillow.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
    if not upright.has_transparency_data:
        return upright.convert("RGB")
    colours = upright.convert("RGBA")
    ground = Pillow.new("RGBA", colours.size, "white")
    return Pillow.alpha_composite(ground, colours).convert("RGB")
