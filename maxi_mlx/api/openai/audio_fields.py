"""Every field of the speech endpoints' forms, and what becomes of it here; as `fields.py`."""

from __future__ import annotations

from collections.abc import Mapping

from maxi_mlx.api.openai.fields import Field

_SHARED: Mapping[str, Field] = {
    "file": Field(
        "honoured", "sound or video with sound; its content decides, not its name or type"
    ),
    "model": Field(
        "honoured",
        "a Whisper model's id; `whisper-1`, `default`, empty or absent: the one in use, else the "
        "first there is",
    ),
    "prompt": Field(
        "honoured", "text that might have come before: names and spelling carry over from it"
    ),
    "keywords[]": Field(
        "honoured", "words that are likely to occur; they stay before the model all along"
    ),
    "hotwords": Field("honoured", "as keywords, in one text parted by commas"),
    "response_format": Field("honoured", "json (the default), text, srt, vtt, verbose_json"),
    "temperature": Field(
        "honoured", "0 to 1, default 0; where the text looks wrong, higher ones are tried"
    ),
    "language": Field(
        "honoured",
        "what is spoken: a code (`de`, `de-AT`) or an English name; empty, `auto` or absent: found "
        "out by listening",
    ),
    "languages[]": Field("honoured", "one: as language; several: the language is found out"),
    "stream": Field(
        "honoured", "true: events as segments are done; with response_format json or text"
    ),
}

TRANSCRIPTION_FIELDS: Mapping[str, Field] = {
    **_SHARED,
    "timestamp_granularities[]": Field(
        "honoured", "segment (the default), word, or both; word needs verbose_json"
    ),
    "include[]": Field("refused", "logprobs: they aren't kept"),
    "known_speaker_names[]": Field("refused", "speakers aren't told apart"),
    "known_speaker_references[]": Field("refused", "speakers aren't told apart"),
    "chunking_strategy": Field("ignored", "long files are always cut where nobody speaks"),
    "user": Field("ignored", "nobody is billed or watched"),
}

TRANSLATION_FIELDS: Mapping[str, Field] = {
    **_SHARED,
    "user": Field("ignored", "nobody is billed or watched"),
}
