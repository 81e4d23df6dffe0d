"""Sounds for tests: what is voice to us and what isn't, and files of every usual form."""

from __future__ import annotations

import importlib.util
import io
import wave
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

RATE = 16_000
Samples = NDArray[np.float32]

NEEDED = ("av", "mlx_whisper", "numba", "scipy", "tiktoken")
needs_speech = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason="the extra for speech isn't installed; README.md says how",
)


def voice(seconds: float, *, loudness: float = 0.3, rate: int = RATE) -> Samples:
    """A hum that rises and falls four times a second, as syllables do."""
    time = np.arange(round(min(seconds, 5) * rate)) / rate
    tone = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 12))
    syllables = np.clip(np.sin(2 * np.pi * 2 * time), 0, None) ** 2
    once = (loudness * tone / 2 * syllables).astype(np.float32)
    return np.resize(once, round(seconds * rate))


def silence(seconds: float, *, rate: int = RATE) -> Samples:
    return np.zeros(round(seconds * rate), np.float32)


def noise(seconds: float, *, loudness: float, rate: int = RATE) -> Samples:
    generator = np.random.default_rng(7)
    return (loudness * generator.standard_normal(round(seconds * rate))).astype(np.float32)


def tone(seconds: float, *, loudness: float = 0.3) -> Samples:
    time = np.arange(round(seconds * RATE)) / RATE
    return (loudness * np.sin(2 * np.pi * 440 * time)).astype(np.float32)


def wav(samples: Samples, *, rate: int = RATE, channels: int = 1) -> bytes:
    data = np.clip(samples * 32767, -32768, 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(np.repeat(data, channels).tobytes())
    return file.getvalue()


def encoded(
    samples: Samples, container: str, codec: str, *, rate: int = RATE, layout: str = "mono"
) -> bytes:
    """A file as PyAV writes it."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format=container) as writer:
        stream = writer.add_stream(codec, rate=rate)
        stream.layout = layout
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), 0
        fifo = av.AudioFifo()
        context = stream.codec_context
        resampler = av.AudioResampler(context.format, layout, context.sample_rate)
        for each in [*resampler.resample(frame), *resampler.resample(None)]:
            fifo.write(each)
        size = context.frame_size or 1024
        while (piece := fifo.read(size, partial=False)) is not None:
            writer.mux(stream.encode(piece))
        if (piece := fifo.read(0, partial=True)) is not None:
            writer.mux(stream.encode(piece))
        writer.mux(stream.encode(None))
    return file.getvalue()
