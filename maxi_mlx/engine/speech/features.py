"""Samples to what Whisper hears: a log-mel spectrogram, a hundred frames a second. Pure numpy.

Also how loud each frame is where voices are, for `voice.py`. Works piece by piece; any cutting of
the samples gives the same frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from maxi_mlx.engine.speech.sound import SAMPLE_RATE, Samples

HOP_SAMPLES = 160
FRAMES_PER_S = SAMPLE_RATE // HOP_SAMPLES
_FFT_SAMPLES = 400
_MARGIN = _FFT_SAMPLES // 2  # a frame reaches so far to both sides of its middle
_LEAST_POWER = 1e-10
# Voices are between 120 and 4,000 Hz; a bin is 40 Hz wide.
_VOICE_BINS = slice(3, 101)
_FULL_SCALE_DB = 41.8  # what a sine of amplitude 1 gives through the window

Floats = NDArray[np.float32]


def mel_filters(num_mels: int) -> Floats:
    """Shape (num_mels, 201), from mlx-whisper's own file."""
    path = resources.files("mlx_whisper") / "assets" / "mel_filters.npz"
    with resources.as_file(path) as file, np.load(file) as tables:
        return np.asarray(tables[f"mel_{num_mels}"], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Frames:
    """``mels``: base-10 logarithms of power, shape (frames, num_mels); ``levels_db``: the loudness
    of each frame's voice band, 0 dB being a full-scale sine."""

    mels: Floats
    levels_db: Floats


class FeatureMaker:
    """A machine: samples in, frames out. Frame ``i`` is around sample ``160 * i``, and there are
    as many as whole hops of samples."""

    def __init__(self, filters: Floats) -> None:
        self._filters = filters.T.astype(np.float32)
        self._window = np.hanning(_FFT_SAMPLES + 1)[:-1].astype(np.float32)
        self._waiting: Samples = np.zeros(0, np.float32)
        self._has_begun = False
        self.num_samples = 0
        self._num_frames = 0

    def feed(self, samples: Samples) -> Frames:
        self.num_samples += len(samples)
        self._waiting = np.concatenate([self._waiting, samples])
        if not self._has_begun:
            if len(self._waiting) <= _MARGIN:
                return self._frames(0)
            self._begin()
        # Frames whose whole reach is there.
        return self._frames(max(0, (len(self._waiting) - _FFT_SAMPLES) // HOP_SAMPLES + 1))

    def finish(self) -> Frames:
        """The last frames, which reach into the silence after the end."""
        silence = np.zeros(_FFT_SAMPLES + HOP_SAMPLES, np.float32)
        self._waiting = np.concatenate([self._waiting, silence])
        if not self._has_begun:
            self._begin()
        return self._frames(self.num_samples // HOP_SAMPLES - self._num_frames)

    def _begin(self) -> None:
        """What comes before the first sample is its mirror image."""
        self._has_begun = True
        mirrored = self._waiting[1 : _MARGIN + 1][::-1]
        self._waiting = np.concatenate([mirrored, self._waiting])

    def _frames(self, count: int) -> Frames:
        num_mels = self._filters.shape[1]
        if count <= 0:
            return Frames(np.zeros((0, num_mels), np.float32), np.zeros(0, np.float32))
        spans = np.lib.stride_tricks.sliding_window_view(self._waiting, _FFT_SAMPLES)
        spans = spans[: count * HOP_SAMPLES : HOP_SAMPLES]
        spectrum = np.fft.rfft(spans * self._window, axis=-1)
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        mels = np.log10(np.maximum(power @ self._filters, _LEAST_POWER))
        voice = np.maximum(power[:, _VOICE_BINS].sum(axis=-1), _LEAST_POWER)
        self._waiting = self._waiting[count * HOP_SAMPLES :]
        self._num_frames += count
        levels = 10 * np.log10(voice) - _FULL_SCALE_DB
        return Frames(mels.astype(np.float32), levels.astype(np.float32))
