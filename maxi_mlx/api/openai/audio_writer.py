"""Events of a transcription to bytes: whole, in each of the formats, or as a stream."""

from __future__ import annotations

from typing import assert_never

from maxi_mlx.api.openai.audio import AudioCall, AudioFormat
from maxi_mlx.api.openai.audio_answer_schema import (
    DurationUsage,
    SegmentItem,
    VerboseTranscription,
    WordItem,
)
from maxi_mlx.api.openai.errors import error_body
from maxi_mlx.api.openai.sse import DONE, frame, to_json
from maxi_mlx.api.openai.subtitles import srt, vtt
from maxi_mlx.core.events import Failed
from maxi_mlx.core.transcription import (
    Segment,
    SegmentWritten,
    Task,
    Transcribed,
    TranscriptionEvent,
    TranscriptionProgress,
    TranscriptionStarted,
    Word,
)

_CONTENT_TYPES: dict[AudioFormat, str] = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain",
    "srt": "text/plain",
    "vtt": "text/vtt",
}
_TRANSLATED_INTO = "english"


def content_type_of(call: AudioCall) -> str:
    """Of a whole answer."""
    return _CONTENT_TYPES[call.format]


class SpokenText:
    """Joins segments' texts: no white space at the beginning or the end of the whole."""

    def __init__(self) -> None:
        self.text = ""
        self._held_back = ""

    def add(self, text: str) -> str:
        """What a client may be given now."""
        if not self.text:
            text = text.lstrip()
        shown = text.rstrip()
        if not shown:
            self._held_back += text if self.text else ""
            return ""
        delta = self._held_back + shown
        self._held_back = text[len(shown) :]
        self.text += delta
        return delta


class TranscriptionAnswer:
    """A whole answer."""

    def __init__(self, call: AudioCall, *, model: str) -> None:
        del model  # no format has it
        self._call = call
        self._text = SpokenText()
        self._segments: list[Segment] = []
        self._language: str | None = None
        self._duration_s = 0.0

    def feed(self, event: TranscriptionEvent) -> None:
        match event:
            case SegmentWritten():
                self._segments.append(event.segment)
                self._text.add(event.segment.text)
            case Transcribed():
                self._language = event.language
                self._duration_s = event.duration_s
            case TranscriptionStarted() | TranscriptionProgress() | Failed():
                pass
            case _:
                assert_never(event)

    def body(self) -> bytes:
        match self._call.format:
            case "json":
                return to_json({"text": self._text.text, "usage": _usage(self._duration_s)})
            case "verbose_json":
                return to_json(self._verbose())
            case "text":
                return (self._text.text + "\n").encode()
            case "srt":
                return srt(self._segments).encode()
            case "vtt":
                return vtt(self._segments).encode()

    def _verbose(self) -> VerboseTranscription:
        task: Task = self._call.request.task
        language = _TRANSLATED_INTO if task == "translate" else self._language
        body: VerboseTranscription = {
            "task": task,
            # A string in OpenAI's own types; nothing was said in it.
            "language": language or "",
            "duration": round(self._duration_s, 3),
            "text": self._text.text,
            "usage": _usage(self._duration_s),
        }
        if self._call.has_words:
            body["words"] = [_word(word) for each in self._segments for word in each.words]
        if self._call.has_segments:
            body["segments"] = [_segment(segment) for segment in self._segments]
        return body


class TranscriptionStreamWriter:
    """Serves one stream: a delta for each segment, and the whole text at the end."""

    def __init__(self, *, model: str) -> None:
        del model
        self._text = SpokenText()

    def start(self) -> bytes:
        return b""

    def event(self, event: TranscriptionEvent) -> bytes:
        match event:
            case SegmentWritten():
                delta = self._text.add(event.segment.text)
                if not delta:
                    return b""
                return frame(to_json({"type": "transcript.text.delta", "delta": delta}))
            case Transcribed():
                done = {
                    "type": "transcript.text.done",
                    "text": self._text.text,
                    "usage": _usage(event.duration_s),
                }
                return frame(to_json(done)) + DONE
            case Failed():
                return frame(error_body(event.error))
            case TranscriptionStarted() | TranscriptionProgress():
                return b""
            case _:
                assert_never(event)


def _usage(duration_s: float) -> DurationUsage:
    return {"type": "duration", "seconds": round(duration_s, 3)}


def _segment(segment: Segment) -> SegmentItem:
    return {
        "id": segment.id,
        "seek": segment.seek,
        "start": round(segment.start_s, 3),
        "end": round(segment.end_s, 3),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
    }


def _word(word: Word) -> WordItem:
    return {"word": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3)}
