"""Files to samples: every usual form, and files that lie, break off or hold nothing."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from maxi_mlx.core.errors import InvalidRequest
from tests.sounds import RATE, encoded, needs_speech, silence, voice, wav

pytestmark = needs_speech

# name: container, codec, sample rate, layout, how many seconds may be added or lost at the ends
FORMS = {
    "mp3": ("mp3", "libmp3lame", 44_100, "stereo", 0.1),
    "m4a": ("mp4", "aac", 48_000, "stereo", 0.1),
    "webm": ("webm", "libopus", 48_000, "mono", 0.1),
    "ogg": ("ogg", "libopus", 48_000, "stereo", 0.1),
    "flac": ("flac", "flac", 22_050, "mono", 0.01),
    "wav 24 bit": ("wav", "pcm_s24le", 96_000, "stereo", 0.01),
    "wav float": ("wav", "pcm_f32le", 8_000, "mono", 0.01),
    "5.1": ("flac", "flac", 48_000, "5.1", 0.01),
}


def samples_of(data: bytes) -> np.ndarray:
    from maxi_mlx.engine.speech.sound import read_sound

    return np.concatenate(list(read_sound(io.BytesIO(data))))


def test_16_khz_mono_comes_as_it_is() -> None:
    spoken = voice(1.5)
    heard = samples_of(wav(spoken))
    assert heard.dtype == np.float32
    np.testing.assert_allclose(heard, spoken, atol=1e-4)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_16_khz_mono(name: str) -> None:
    container, codec, rate, layout, slack_s = FORMS[name]
    spoken = voice(2, rate=rate)
    heard = samples_of(encoded(spoken, container, codec, rate=rate, layout=layout))
    assert len(heard) / RATE == pytest.approx(2, abs=slack_s)
    # As loud as it was, at the same times.
    expected = voice(2)
    size = min(len(heard), len(expected)) // 1600 * 1600
    for each in (heard, expected):
        assert np.isfinite(each).all()
    ours = np.sqrt((heard[:size].reshape(-1, 1600) ** 2).mean(axis=1))
    theirs = np.sqrt((expected[:size].reshape(-1, 1600) ** 2).mean(axis=1))
    ours, theirs = ours / ours.max(), theirs / theirs.max()
    assert np.abs(ours - theirs).max() < 0.45
    assert np.corrcoef(ours, theirs)[0, 1] > 0.9


def test_a_long_file_comes_in_pieces() -> None:
    from maxi_mlx.engine.speech.sound import read_sound

    pieces = list(read_sound(io.BytesIO(wav(voice(35)))))
    assert len(pieces) == 4
    assert sum(map(len, pieces)) == 35 * RATE


def test_numbers_beyond_sound_are_cut() -> None:
    wild = np.full(RATE, 0.5, np.float32)
    wild[100:200] = np.nan
    wild[300:400] = np.inf
    wild[500:600] = 1e30
    heard = samples_of(encoded(wild, "wav", "pcm_f32le"))
    assert np.isfinite(heard).all()
    assert np.abs(heard).max() <= 1


BROKEN = {
    "empty": b"",
    "text": b"This is no sound at all.\n" * 50,
    "zeros": bytes(5000),
    "a header alone": wav(silence(1))[:30],
    "no samples": wav(silence(0)),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
    "a list of files": b"ffconcat version 1.0\nfile '/etc/hostname'\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_sound_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        samples_of(BROKEN[name])
    assert caught.value.param == "file"


@pytest.mark.parametrize("name", ["mp3", "ogg", "flac", "m4a"])
def test_any_cut_and_any_damage_is_sound_or_a_refusal(name: str) -> None:
    container, codec, rate, layout, _ = FORMS[name]
    data = encoded(voice(1, rate=rate), container, codec, rate=rate, layout=layout)
    generator = np.random.default_rng(3)
    for place in generator.integers(0, len(data), 15).tolist():
        damaged = bytearray(data)
        damaged[place : place + 40] = generator.bytes(40)
        for each in (data[:place], bytes(damaged)):
            try:
                heard = samples_of(each)
            except InvalidRequest:
                continue
            assert len(heard) < 40 * RATE
            assert np.isfinite(heard).all()


@pytest.mark.parametrize("form", ["m3u8", "concat", "sdp"])
def test_a_playlist_opens_no_other_file(form: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(wav(voice(1)))
    lists = {
        "m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{secret}\n#EXT-X-ENDLIST\n",
        "concat": f"ffconcat version 1.0\nfile '{secret}'\n",
        "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=audio 9 RTP/AVP 0\n",
    }
    with pytest.raises(InvalidRequest):
        samples_of(lists[form].encode())


def test_no_form_that_names_other_files_is_tried() -> None:
    from maxi_mlx.engine.speech.sound import _FORMATS

    naming = {"applehttp", "hls", "concat", "concatf", "dash", "imf", "rtp", "rtsp", "sdp"}
    assert naming.isdisjoint(_FORMATS.split(","))
