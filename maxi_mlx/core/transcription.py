"""Speech to text: what a client asks for, and the events that answer it, whatever its protocol.

A wire format makes a `TranscriptionRequest`; the engine answers with a stream that begins with
`TranscriptionStarted` and ends with `Transcribed` or `Failed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Literal

from maxi_mlx.core.events import Failed

Task = Literal["transcribe", "translate"]

MAX_PROMPT_CHARS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionRequest:
    """One file to be written down. ``file`` is read by worker threads and must stay open until the
    answer has ended. ``translate`` gives English whatever was spoken.

    ``language`` is a code or an English name, None: found out by listening. ``prompt`` is text that
    might have come before; ``keywords`` are words that are likely to occur. ``temperature`` is the
    lowest that is tried; where its text looks wrong, higher ones follow.
    """

    id: str
    model: str
    file: BinaryIO
    task: Task = "transcribe"
    language: str | None = None
    prompt: str | None = None
    keywords: tuple[str, ...] = ()
    temperature: float = 0.0
    wants_words: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """Seconds from the beginning of the file. ``text`` has no white space around it."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of speech. ``text`` begins with the white space that parts it from the one before.

    ``seek`` is where its window of 30 s begins, in hundredths of a second. The figures are the
    model's own on that window: the mean natural logarithm of its tokens' probability, how well the
    text compresses, and how likely it held this to be no speech.
    """

    id: int
    seek: int
    start_s: float
    end_s: float
    text: str
    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class TranscriptionStarted:
    """The file holds sound, and its turn will come. ``model`` is the id that answers."""

    model: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class SegmentWritten:
    """One more segment, in the order of time."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class TranscriptionProgress:
    """So many seconds of the file are done."""

    processed_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Transcribed:
    """All is written; the last event of a good stream. ``language`` is the English name of the
    language of the text, None: nothing was said."""

    language: str | None
    duration_s: float
    elapsed_s: float


TranscriptionEvent = (
    TranscriptionStarted | SegmentWritten | TranscriptionProgress | Transcribed | Failed
)
