"""How a family's images are cut, and the text that stands for them, by the folder's own settings.

Machines of numbers and text, for worker threads. The prompt's text has one ``placeholder`` for an
image, as the chat template writes it; `PreparedImage.text` comes in its place.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

Settings = Mapping[str, Any]

# In Pillow's numbers, which preprocessor_config.json has.
_LANCZOS, _BILINEAR, _BICUBIC = 1, 2, 3
# Of one of Qwen's images. Their own files let it have 16,000, which is a context full of it.
_MOST_TOKENS = 4096
# The longest side that transformers lets an Idefics 3 image grow to.
_MAX_SIDE = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedImage:
    """``crops`` is (crops, height, width, 3); ``text`` has the image's tokens in it, which lie in a
    ``grid`` where their places count."""

    text: str
    crops: NDArray[np.uint8] = field(repr=False)
    grid: tuple[int, int] | None = None

    @property
    def digest(self) -> bytes:
        """Of all that the model sees of it."""
        hashed = hashlib.blake2b(repr(self.crops.shape).encode(), digest_size=32)
        hashed.update(self.crops.data)
        return hashed.digest()


class Sight(Protocol):
    @property
    def placeholder(self) -> str: ...

    @property
    def token(self) -> str:
        """The token that stands for one vector of an image."""

    def prepare(self, image: Pillow.Image) -> PreparedImage: ...


class Idefics3Sight:
    """Idefics 3 and SmolVLM: the image in crops of one size, and after them all of it as one."""

    placeholder = token = "<image>"
    _AROUND = "<fake_token_around_image>"
    _WHOLE = "<global-img>"

    def __init__(self, settings: Settings, config: Settings) -> None:
        self._side = int(settings.get("max_image_size", {}).get("longest_edge", 364))
        self._longest = int(settings.get("size", {}).get("longest_edge", 4 * self._side))
        self._splits = bool(settings.get("do_image_splitting", True))
        self._resample = Pillow.Resampling(settings.get("resample", _LANCZOS))
        patches = self._side // int(config["vision_config"]["patch_size"])
        self._num_tokens = (patches // int(config.get("scale_factor", 2))) ** 2

    def prepare(self, image: Pillow.Image) -> PreparedImage:
        side = (self._side, self._side)
        if not self._splits:
            return self._single(self._resized(image, side))
        image = self._resized(image, _longest_side(image.size, self._longest))
        image = self._resized(image, self._whole_crops(image.size))
        if image.size == side:
            return self._single(image)
        columns, rows = image.width // self._side, image.height // self._side
        boxes = [
            (x * self._side, y * self._side, (x + 1) * self._side, (y + 1) * self._side)
            for y in range(rows)
            for x in range(columns)
        ]
        crops = [*map(image.crop, boxes), self._resized(image, side)]
        return PreparedImage(text=self._split_text(rows, columns), crops=_stacked(crops))

    def _single(self, image: Pillow.Image) -> PreparedImage:
        return PreparedImage(text=self._whole_text(), crops=_stacked([image]))

    def _resized(self, image: Pillow.Image, size: tuple[int, int]) -> Pillow.Image:
        return image.resize(size, self._resample)

    def _whole_crops(self, size: tuple[int, int]) -> tuple[int, int]:
        """The longer side up to whole crops, and the other after it likewise."""
        width, height = size
        if width >= height:
            wide = self._rounded_up(width)
            return wide, self._rounded_up(int(wide / (width / height)))
        high = self._rounded_up(height)
        return self._rounded_up(int(high * (width / height))), high

    def _rounded_up(self, length: int) -> int:
        return max(math.ceil(length / self._side), 1) * self._side

    def _split_text(self, rows: int, columns: int) -> str:
        lines = (
            "".join(
                f"{self._AROUND}<row_{row}_col_{column}>{self.token * self._num_tokens}"
                for column in range(1, columns + 1)
            )
            for row in range(1, rows + 1)
        )
        return "".join(f"{line}\n" for line in lines) + f"\n{self._whole_text()}"

    def _whole_text(self) -> str:
        return f"{self._AROUND}{self._WHOLE}{self.token * self._num_tokens}{self._AROUND}"


class Gemma3Sight:
    """Gemma 3: all of the image as one square."""

    placeholder = "<start_of_image>"
    token = "<image_soft_token>"
    _END = "<end_of_image>"

    def __init__(self, settings: Settings, config: Settings) -> None:
        size = settings.get("size", {})
        side = int(config["vision_config"].get("image_size", 896))
        self._size = int(size.get("width", side)), int(size.get("height", side))
        self._resample = Pillow.Resampling(settings.get("resample", _BILINEAR))
        self._num_tokens = int(config.get("mm_tokens_per_image", 256))

    def prepare(self, image: Pillow.Image) -> PreparedImage:
        tokens = self.token * self._num_tokens
        return PreparedImage(
            text=f"\n\n{self.placeholder}{tokens}{self._END}\n\n",
            crops=_stacked([image.resize(self._size, self._resample)]),
        )


class Gemma4Sight:
    """Gemma 4: all of the image, as large as its tokens allow, one for a square of patches."""

    def __init__(self, settings: Settings, config: Settings) -> None:
        names = config.get("tokenizer_config", {})
        self.placeholder = self.token = str(names.get("image_token", "<|image|>"))
        self._around = (
            str(names.get("boi_token", "<|image>")),
            str(names.get("eoi_token", "<image|>")),
        )
        vision = config["vision_config"]
        pool = int(settings.get("pooling_kernel_size", vision.get("pooling_kernel_size", 3)))
        self._square = pool * int(settings.get("patch_size", vision.get("patch_size", 16)))
        self._most = int(settings.get("max_soft_tokens", 280))
        self._resample = Pillow.Resampling(settings.get("resample", _BICUBIC))

    def prepare(self, image: Pillow.Image) -> PreparedImage:
        width, height = image.size
        factor = math.sqrt(self._most / (width * height))
        across, down = math.floor(factor * width), math.floor(factor * height)
        if not down:
            across, down = min(max(width // height, 1), self._most), 1
        elif not across:
            across, down = 1, min(max(height // width, 1), self._most)
        image = image.resize((across * self._square, down * self._square), self._resample)
        begin, end = self._around
        return PreparedImage(
            text=f"{begin}{self.token * (across * down)}{end}", crops=_stacked([image])
        )


class MistralSight:
    """Mistral's: all of the image, made smaller where it is too large, its tokens row by row."""

    placeholder = token = "[IMG]"
    _BREAK, _END = "[IMG_BREAK]", "[IMG_END]"

    def __init__(self, settings: Settings, config: Settings) -> None:
        vision = config["vision_config"]
        patch = int(vision.get("patch_size", 14))
        self._square = patch * int(config.get("spatial_merge_size", 2))
        largest = int(vision.get("image_size", 1540))
        self._longest = min(int(settings.get("size", {}).get("longest_edge", largest)), largest)
        self._resample = Pillow.Resampling(settings.get("resample", _BICUBIC))

    def prepare(self, image: Pillow.Image) -> PreparedImage:
        ratio = max(*image.size, self._longest) / self._longest
        sides = (max(math.floor(side / ratio), 1) for side in image.size)
        across, down = (math.ceil(side / self._square) for side in sides)
        crops = [image.resize((across * self._square, down * self._square), self._resample)]
        text = self._BREAK.join([self.token * across] * down) + self._END
        return PreparedImage(text=text, crops=_stacked(crops))


class QwenSight:
    """Qwen's: all of the image, near its own size, a token for a square of patches."""

    placeholder = token = "<|image_pad|>"

    def __init__(self, settings: Settings, config: Settings) -> None:
        patch = int(settings.get("patch_size", config["vision_config"].get("patch_size", 14)))
        self._square = patch * int(settings.get("merge_size", 2))
        size = settings.get("size", {})
        fewest = settings.get("min_pixels") or size.get("shortest_edge") or 56 * 56
        most = settings.get("max_pixels") or size.get("longest_edge") or 28 * 28 * 1280
        self._fewest = int(fewest)
        self._most = min(int(most), _MOST_TOKENS * self._square**2)
        self._resample = Pillow.Resampling(settings.get("resample", _BICUBIC))

    def prepare(self, image: Pillow.Image) -> PreparedImage:
        width, height = self._fitting(*image.size)
        grid = height // self._square, width // self._square
        crops = _stacked([image.resize((width, height), self._resample)])
        return PreparedImage(text=self.token * (grid[0] * grid[1]), crops=crops, grid=grid)

    def _fitting(self, width: int, height: int) -> tuple[int, int]:
        """Whole squares, neither too few nor too many of them, and the sides' ratio as it is."""
        square = self._square
        sides = round(width / square) * square, round(height / square) * square
        if sides[0] * sides[1] > self._most:
            factor = math.sqrt(self._most / (width * height))
            counts = [max(math.floor(side * factor / square), 1) for side in (width, height)]
        elif sides[0] * sides[1] < self._fewest:
            factor = math.sqrt(self._fewest / (width * height))
            counts = [math.ceil(side * factor / square) for side in (width, height)]
        else:
            return sides
        # Of a line one square wide, the length is what it may be in all.
        wide, high = (min(count, self._most // square**2) * square for count in counts)
        return wide, high


def _longest_side(size: tuple[int, int], longest: int) -> tuple[int, int]:
    """So that the longer side is ``longest``, however small the image; the other one is even."""
    width, height = size
    if width >= height:
        other = int(longest / (width / height))
        found = longest, max(other + other % 2, 1)
    else:
        other = int(longest * (width / height))
        found = max(other + other % 2, 1), longest
    return _within(found, _MAX_SIDE)


def _within(size: tuple[int, int], most: int) -> tuple[int, int]:
    width, height = size
    if max(size) <= most:
        return size
    if width >= height:
        return most, max(int(most / (width / height)), 1)
    return max(int(most * (width / height)), 1), most


def _stacked(crops: list[Pillow.Image]) -> NDArray[np.uint8]:
    return np.stack([np.asarray(crop, dtype=np.uint8) for crop in crops])


SIGHTS: Mapping[str, Callable[[Settings, Settings], Sight]] = {
    "idefics3": Idefics3Sight,
    "smolvlm": Idefics3Sight,
    "gemma3": Gemma3Sight,
    "gemma4": Gemma4Sight,
    "mistral3": MistralSight,
    "qwen2_vl": QwenSight,
    "qwen2_5_vl": QwenSight,
    "qwen3_vl": QwenSight,
    "qwen3_vl_moe": QwenSight,
    "qwen3_5": QwenSight,
    "qwen3_5_moe": QwenSight,
}
