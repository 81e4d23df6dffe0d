"""The speech endpoints' answers as they go over the wire; as `answer_schema`."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class DurationUsage(TypedDict):
    type: Literal["duration"]
    seconds: float


class Transcription(TypedDict):
    text: str
    usage: DurationUsage


class WordItem(TypedDict):
    word: str
    start: float
    end: float


class SegmentItem(TypedDict):
    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class VerboseTranscription(TypedDict):
    task: Literal["transcribe", "translate"]
    language: str
    duration: float
    text: str
    words: NotRequired[list[WordItem]]
    segments: NotRequired[list[SegmentItem]]
    usage: DurationUsage


class TranscriptEvent(TypedDict):
    """A delta for each segment; at the end all of the text."""

    type: Literal["transcript.text.delta", "transcript.text.done"]
    delta: NotRequired[str]
    text: NotRequired[str]
    usage: NotRequired[DurationUsage]
