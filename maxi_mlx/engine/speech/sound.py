"""Any file that holds sound to 16 kHz mono, piece by piece, by PyAV. Blocks: for a worker thread.

Knows nothing of models. A file is untrusted: what it claims to be is tried, what it refers to
(playlists name other files and addresses) is never opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import av
import numpy as np
from numpy.typing import NDArray

from maxi_mlx.core.errors import InvalidRequest

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.container import InputContainer

SAMPLE_RATE = 16_000

Samples = NDArray[np.float32]

# Containers that hold their own sound. No playlist and no list of files is among them.
_FORMATS = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,caf,eac3,flac,flv,gsm,matroska,webm,mov,mp4,m4a,mp3,mpeg,"
    "mpegts,mpc,mpc8,ogg,rm,tta,w64,wav,wv"
)
# Nothing that has to be opened by a name: the file itself comes through our own reader.
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
_PIECE_SAMPLES = 10 * SAMPLE_RATE


def read_sound(file: BinaryIO) -> Iterator[Samples]:
    """Pieces of about ten seconds of samples between -1 and 1, all channels mixed into one.

    Frames that are broken are left out, as players do. Raises InvalidRequest for a file in which
    nothing can be heard.
    """
    file.seek(0)
    with _opened(file) as container:
        num_samples = 0
        for piece in _gathered(_resampled(_frames(container))):
            num_samples += len(piece)
            yield piece
    if not num_samples:
        raise _no_sound("no part of its sound can be decoded")


def _opened(file: BinaryIO) -> InputContainer:
    if not file.read(1):
        raise InvalidRequest("The file is empty: send one that holds sound.", param="file")
    file.seek(0)
    try:
        return av.open(file, mode="r", options=_OPTIONS)
    except (av.FFmpegError, ValueError) as error:
        raise _no_sound("it is no sound or video file, or a part of it is missing") from error


def _frames(container: InputContainer) -> Iterator[AudioFrame]:
    stream = container.streams.best("audio")
    if stream is None:
        raise _no_sound("there is no sound in it")
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except (av.FFmpegError, ValueError):
            return  # it breaks off here: what came before is what there is
        if packet is None:
            return
        try:
            yield from packet.decode()  # type: ignore[misc]  # of an audio stream, so audio frames
        except av.FFmpegError:
            continue


def _resampled(frames: Iterator[AudioFrame]) -> Iterator[Samples]:
    form: tuple[str, str, int] | None = None
    resampler: av.AudioResampler | None = None
    for frame in frames:
        # Radio recordings change between mono and stereo.
        now = (frame.format.name, frame.layout.name, frame.sample_rate)
        if resampler is None or now != form:
            if resampler is not None:
                yield from _arrays(resampler.resample(None))
            form, resampler = now, av.AudioResampler("flt", "mono", SAMPLE_RATE)
        frame.pts = None  # a gap in the times is no silence to make up for
        yield from _arrays(resampler.resample(frame))
    if resampler is not None:
        yield from _arrays(resampler.resample(None))


def _arrays(frames: list[AudioFrame]) -> Iterator[Samples]:
    for frame in frames:
        samples = np.nan_to_num(frame.to_ndarray().reshape(-1), nan=0.0)
        yield np.clip(samples, -1.0, 1.0).astype(np.float32, copy=False)


def _gathered(arrays: Iterator[Samples]) -> Iterator[Samples]:
    waiting: list[Samples] = []
    num_samples = 0
    for array in arrays:
        waiting.append(array)
        num_samples += len(array)
        if num_samples >= _PIECE_SAMPLES:
            yield np.concatenate(waiting)
            waiting, num_samples = [], 0
    if num_samples:
        yield np.concatenate(waiting)


def _no_sound(reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"The file can't be read as sound: {reason}. Send wav, mp3, m4a, mp4, webm, ogg, flac or "
        "another usual form.",
        param="file",
    )
