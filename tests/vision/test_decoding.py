"""An image file comes out as a person sees it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image as Pillow

from maxi_mlx.core.request import Image
from tests.vision.asking import file_of, picture


def decoded(data: bytes) -> Pillow.Image:
    from maxi_mlx.engine.vision.decoding import decode_image

    return decode_image(Image(data, "messages[0]"))


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "JPEG", "WEBP"])
def test_every_kind_is_read(kind: str) -> None:
    image = Pillow.new("RGB", (9, 5), (200, 100, 50))
    found = decoded(file_of(image, kind))
    assert (found.mode, found.size) == ("RGB", (9, 5))
    np.testing.assert_allclose(np.asarray(found)[2, 2], (200, 100, 50), atol=4)


def test_what_lies_on_its_side_is_turned_upright() -> None:
    image = picture(size=(9, 5))
    exif = Pillow.Exif()
    exif[0x0112] = 6  # the top is on the right
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    found = decoded(file.getvalue())
    assert found.size == (5, 9)
    np.testing.assert_array_equal(found, image.transpose(Pillow.Transpose.ROTATE_270))


def test_greys_of_16_bits_keep_their_shades() -> None:
    greys = np.linspace(0, 65535, 256, dtype=np.uint16)[None]
    found = decoded(file_of(Pillow.fromarray(greys)))
    np.testing.assert_array_equal(np.asarray(found)[0, :, 0], greys[0] >> 8)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(mode: str) -> None:
    image = Pillow.new("RGBA", (4, 4), (0, 0, 0, 0))
    image.putpixel((1, 1), (0, 0, 0, 255))
    found = decoded(file_of(image.convert(mode)))
    assert found.getpixel((0, 0)) == (255, 255, 255)
    assert found.getpixel((1, 1)) == (0, 0, 0)
