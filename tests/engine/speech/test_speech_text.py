"""The machines around the model: rules of times, segments, loops, voice, features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxi_mlx.engine.speech.loops import compression_ratio, without_loop
from maxi_mlx.engine.speech.rules import LAST_TIME, Bounds, bounds_after
from maxi_mlx.engine.speech.segments import Span, cut
from tests.sounds import RATE, needs_speech, noise, silence, tone, voice

TIME = 1000  # the token of 0.00 in these tests; words are below it


def at(seconds: float) -> int:
    return TIME + round(seconds / 0.02)


BOUNDS = {
    "a text begins with a time in its first second": ([], Bounds(False, False, 0, 50)),
    "then words come": ([at(0)], Bounds(True, True, 1, 0)),
    "then words or a later time": ([at(0.5), 7], Bounds(True, True, 26, LAST_TIME)),
    "after an end, a beginning or nothing": (
        [at(0), 7, at(2)],
        Bounds(False, True, 100, LAST_TIME),
    ),
    "after a pair, words": ([at(0), 7, at(2), at(2)], Bounds(True, True, 1, 0)),
    "a segment has a length": ([at(0), 7, at(2), at(2), 8], Bounds(True, True, 101, LAST_TIME)),
    "the window's end is the last time": (
        [at(0), 7, at(30), at(30), 8],
        Bounds(True, True, LAST_TIME + 1, LAST_TIME),
    ),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_bounds(case: str) -> None:
    written, bounds = BOUNDS[case]
    assert bounds_after(written, time_begin=TIME) == bounds


@settings(max_examples=40)
@given(st.data())
def test_whatever_is_written_within_bounds_never_goes_back_in_time(data: st.DataObject) -> None:
    written: list[int] = []
    for _ in range(data.draw(st.integers(1, 25))):
        bounds = bounds_after(written, time_begin=TIME)
        assert bounds.text or bounds.times or bounds.end, "there is always a way on"
        choices = [st.integers(1, 9)] if bounds.text else []
        if bounds.times:
            times = st.integers(bounds.first_time, min(bounds.first_time + 90, bounds.last_time))
            choices.append(times.map(lambda step: TIME + step))
        if not choices:
            break
        written.append(data.draw(st.one_of(choices)))
    times = [token for token in written if token >= TIME]
    assert times == sorted(times)
    parts = cut(written, num_frames=3000, time_begin=TIME)
    assert 0 < parts.num_frames <= 3000
    assert all(0 <= span.start_s <= span.end_s <= 30 for span in parts.spans)


CUTS = {
    "one segment, nothing after it": (
        [at(0), 1, 2, at(2)],
        [Span(0, 2, (at(0), 1, 2, at(2)))],
        3000,
    ),
    "two segments, and an end": (
        [at(0), 1, at(2), at(2.5), 2, at(4)],
        [Span(0, 2, (at(0), 1, at(2))), Span(2.5, 4, (at(2.5), 2, at(4)))],
        3000,
    ),
    "what has no end is heard again": (
        [at(0), 1, at(2), at(2.5), 2],
        [Span(0, 2, (at(0), 1, at(2)))],
        200,
    ),
    "a pair at the end": (
        [at(0), 1, at(2), at(2)],
        [Span(0, 2, (at(0), 1, at(2)))],
        200,
    ),
    "a window gets on by half a second at least": (
        [at(0), 1, at(0.1), at(0.1), 2],
        [Span(0, 0.1, (at(0), 1, at(0.1)))],
        50,
    ),
    "no end": ([at(1), 1, 2], [Span(1, 30, (at(1), 1, 2))], 3000),
    "nothing": ([], [Span(0, 30, ())], 3000),
}


@pytest.mark.parametrize("case", CUTS)
def test_cut(case: str) -> None:
    tokens, spans, num_frames = CUTS[case]
    parts = cut(tokens, num_frames=3000, time_begin=TIME)
    assert parts.num_frames == num_frames
    assert [span.tokens for span in parts.spans] == [span.tokens for span in spans]
    for span, expected in zip(parts.spans, spans, strict=True):
        assert (span.start_s, span.end_s) == pytest.approx((expected.start_s, expected.end_s))


LOOPS = {
    "one word": ([5, 6, 7, 7, 7, 7, 7], [5, 6, 7]),
    "a sentence, cut in its last round": ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1], [9, 1, 2, 3]),
    "said three times": ([1, 2, 1, 2, 1, 2], [1, 2, 1, 2, 1, 2]),
    "no loop": ([1, 2, 3, 4], [1, 2, 3, 4]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("case", LOOPS)
def test_without_loop(case: str) -> None:
    tokens, expected = LOOPS[case]
    assert without_loop(tokens) == expected


def test_a_loop_compresses_better_than_speech() -> None:
    speech = "And so my fellow Americans ask not what your country can do for you."
    assert compression_ratio(speech) < 1.5
    assert compression_ratio("Thank you. " * 20) > 2.4
    assert compression_ratio("") == 0


# -- what is heard -------------------------------------------------------------------------------


def frames_of(samples: np.ndarray, pieces: list[int] | None = None) -> list[np.ndarray]:
    from maxi_mlx.engine.speech.features import FeatureMaker

    filters = np.abs(np.random.default_rng(1).standard_normal((80, 201))).astype(np.float32)
    maker = FeatureMaker(filters)
    frames = [maker.feed(piece) for piece in np.split(samples, pieces or [])]
    frames.append(maker.finish())
    mels = np.concatenate([each.mels for each in frames])
    return [mels, np.concatenate([each.levels_db for each in frames])]


def regions_of(samples: np.ndarray) -> list[tuple[float, float]]:
    from maxi_mlx.engine.speech.voice import voiced_frames, voiced_regions

    _, levels = frames_of(samples)
    regions = voiced_regions(voiced_frames(levels))
    return [(region.start / 100, region.end / 100) for region in regions]


@needs_speech
@settings(max_examples=30)
@given(st.lists(st.integers(0, 5000), max_size=12).map(sorted))
def test_any_cutting_of_the_samples_gives_the_same_frames(pieces: list[int]) -> None:
    samples = voice(5000 / RATE) + noise(5000 / RATE, loudness=0.01)
    mels, levels = frames_of(samples, pieces)
    whole_mels, whole_levels = frames_of(samples)
    assert len(mels) == 5000 // 160
    np.testing.assert_allclose(mels, whole_mels, atol=1e-4)
    np.testing.assert_allclose(levels, whole_levels, atol=1e-3)


@needs_speech
@pytest.mark.parametrize("num_samples", [1, 159, 160, 200, 201, 400, 1600])
def test_short_sounds_have_as_many_frames_as_whole_hops(num_samples: int) -> None:
    mels, levels = frames_of(np.full(num_samples, 0.1, np.float32))
    assert len(mels) == len(levels) == num_samples // 160
    assert np.isfinite(mels).all()


@needs_speech
def test_a_full_sine_is_0_db() -> None:
    _, levels = frames_of(tone(1, loudness=1.0))
    assert np.median(levels) == pytest.approx(0, abs=0.5)


QUIET = {
    "nothing": silence(30),
    "hiss": noise(30, loudness=0.02),
    "loud hiss": noise(30, loudness=0.3),
    "a hum": tone(30),
    "a click": np.concatenate([silence(10), np.ones(16, np.float32), silence(10)]),
}


@needs_speech
@pytest.mark.parametrize("name", QUIET)
def test_what_is_steady_is_no_voice(name: str) -> None:
    assert regions_of(QUIET[name]) == []


@needs_speech
@pytest.mark.parametrize("loudness", [0.5, 0.05, 0.005])
@pytest.mark.parametrize("hiss", [0.0, 0.1], ids=["quiet", "10 dB of hiss below"])
def test_a_voice_is_found_where_it_is(loudness: float, hiss: float) -> None:
    spoken = np.concatenate([silence(5), voice(4, loudness=loudness), silence(6)])
    spoken = spoken + noise(15, loudness=loudness * hiss + 1e-6)
    [(start, end)] = regions_of(spoken)
    assert 4 < start <= 5.1
    assert 8.8 <= end < 10


@needs_speech
def test_pauses_between_words_part_nothing_and_long_ones_do() -> None:
    spoken = [voice(2), silence(1), voice(2), silence(6), voice(2), silence(2)]
    regions = regions_of(np.concatenate(spoken))
    assert len(regions) == 2


SILENCES = {
    "none": ((0, 100), (20, 80), (0, 100)),
    "long ones": ((0, 300), (100, 200), (90, 210)),
    "before": ((0, 300), (100, 290), (90, 300)),
    "nothing but": ((0, 300), (400, 500), (0, 300)),
}


@pytest.mark.parametrize("case", SILENCES)
def test_without_silence(case: str) -> None:
    from maxi_mlx.engine.speech.voice import without_silence

    (start, end), (first, last), expected = SILENCES[case]
    voiced = np.zeros(600, np.bool_)
    voiced[first:last] = True
    assert without_silence(voiced, start, end) == expected


@needs_speech
def test_a_short_cry_counts() -> None:
    assert len(regions_of(tone(0.5))) == 1
