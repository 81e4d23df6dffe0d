"""One recording, ready for the model: its frames, how long it is, and where voices are.

Made on a worker thread, then read by the device thread alone, which also closes it. A long one
lies in a temporary file, so that two hours take no more memory than ten minutes.
"""

from __future__ import annotations

import tempfile
import threading
from typing import BinaryIO

import numpy as np

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.engine.speech.features import FeatureMaker, Floats, Frames
from maxi_mlx.engine.speech.sound import SAMPLE_RATE, read_sound
from maxi_mlx.engine.speech.voice import Flags, Region, voiced_frames, voiced_regions

# What OpenAI's service takes at the least; shorter than any word.
SHORTEST_S = 0.1
LONGEST_S = 12 * 3600
_IN_MEMORY_BYTES = 32 * 2**20

# Whisper's own scale: what is this far below the loudest is cut, and the rest made about -1 to 1.
_RANGE = 8.0
_SHIFT = 4.0


class Stopped(Exception):
    """Nobody waits for the recording any more."""


class Recording:
    """``duration_s`` is exact; ``num_frames`` counts its hundredths of a second, and ``voiced``
    says of each whether somebody may be speaking."""

    def __init__(self, num_mels: int) -> None:
        self._num_mels = num_mels
        # Closed by `close`, after it has crossed threads.
        self._store = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115
        self._loudest = -np.inf
        self.num_frames = 0
        self.duration_s = 0.0
        self.voiced: Flags = np.zeros(0, np.bool_)
        self.regions: list[Region] = []

    def append(self, mels: Floats) -> None:
        if len(mels):
            self._store.write(mels.tobytes())
            self._loudest = max(self._loudest, float(mels.max()))
            self.num_frames += len(mels)

    def window(self, start: int, *, num_frames: int, length: int) -> Floats:
        """On Whisper's scale, shape (length, num_mels): frames from ``start``, then nothing."""
        frame_bytes = self._num_mels * 4
        self._store.seek(start * frame_bytes)
        data = self._store.read(num_frames * frame_bytes)
        mels = np.frombuffer(data, np.float32).reshape(-1, self._num_mels)
        window = np.zeros((length, self._num_mels), np.float32)
        window[: len(mels)] = (np.maximum(mels, self._loudest - _RANGE) + _SHIFT) / _SHIFT
        return window

    def close(self) -> None:
        self._store.close()


def record(file: BinaryIO, filters: Floats, *, stop: threading.Event) -> Recording:
    """Decodes a whole file. Raises InvalidRequest for what is no sound, is too short or too long,
    and Stopped soon after ``stop`` is set."""
    recording = Recording(filters.shape[0])
    try:
        _fill(recording, FeatureMaker(filters), file, stop)
    except BaseException:
        recording.close()
        raise
    return recording


def _fill(recording: Recording, maker: FeatureMaker, file: BinaryIO, stop: threading.Event) -> None:
    levels = []

    def add(frames: Frames) -> None:
        recording.append(frames.mels)
        levels.append(frames.levels_db)

    for samples in read_sound(file):
        if stop.is_set():
            raise Stopped
        add(maker.feed(samples))
        if maker.num_samples > LONGEST_S * SAMPLE_RATE:
            raise InvalidRequest(
                f"The recording is longer than {LONGEST_S // 3600} hours: send it in parts.",
                param="file",
            )
    if maker.num_samples < SHORTEST_S * SAMPLE_RATE:
        raise InvalidRequest(
            f"The recording has {maker.num_samples / SAMPLE_RATE:.4f} s of sound; it takes at "
            f"least {SHORTEST_S} s.",
            param="file",
        )
    add(maker.finish())
    recording.duration_s = maker.num_samples / SAMPLE_RATE
    recording.voiced = voiced_frames(np.concatenate(levels))
    recording.regions = voiced_regions(recording.voiced)
