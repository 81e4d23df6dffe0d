"""What a terminal and what a log show of a long job."""

from __future__ import annotations

import io
import re

import pytest

from maxi_mlx.cli.progress import duration_text, progress_on


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class AsciiTerminal(Terminal):
    encoding = "ascii"


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def last_line(stream: io.StringIO) -> str:
    """What stands on the line that is drawn over and over, without colours."""
    return re.sub(r"\x1b\[\d+m", "", stream.getvalue().split("\r\x1b[K")[-1])


def test_bar_shows_share_rate_and_time_left(clock: Clock) -> None:
    stream = Terminal()
    with progress_on(stream, clock) as progress:
        progress.start("Downloading", 100_000_000, unit="bytes")
        for _ in range(5):
            clock.now_s += 1
            progress.advance(5_000_000)
        bar = "━" * 6 + "─" * 21
        assert last_line(stream) == f"Downloading  {bar}  25.0 of 100.0 MB  5.0 MB/s  0:15 left"
        progress.done()
    assert last_line(stream) == "Downloading: done in 0:05\n"


def test_what_was_there_already_is_no_speed(clock: Clock) -> None:
    stream = Terminal()
    with progress_on(stream, clock) as progress:
        progress.start("Downloading", 100_000_000, unit="bytes", already=90_000_000)
        assert last_line(stream).endswith("90.0 of 100.0 MB")
        clock.now_s += 2
        progress.advance(2_000_000)
        assert last_line(stream).endswith("92.0 of 100.0 MB  1.0 MB/s  0:08 left")
        progress.done()


def test_speed_is_that_of_the_last_seconds(clock: Clock) -> None:
    stream = Terminal()
    with progress_on(stream, clock) as progress:
        progress.start("Downloading", 100_000_000, unit="bytes")
        for amount in [10_000_000] * 3 + [1_000_000] * 10:
            clock.now_s += 1
            progress.advance(amount)
        assert last_line(stream).endswith("40.0 of 100.0 MB  1.0 MB/s  1:00 left")
        progress.done()


def test_bar_is_not_drawn_at_every_step(clock: Clock) -> None:
    stream = Terminal()
    with progress_on(stream, clock) as progress:
        progress.start("Converting", 1000, unit="tensors")
        for _ in range(1000):
            clock.now_s += 0.001
            progress.advance(1)
        progress.done()
    assert 10 <= stream.getvalue().count("\r") <= 13


@pytest.mark.parametrize(("columns", "has_bar"), [(50, True), (30, False), (12, False)])
def test_bar_never_wraps(
    columns: int, has_bar: bool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    with progress_on(stream, clock) as progress:
        progress.start("Converting", 272, unit="tensors")
        progress.advance(100)
        assert len(last_line(stream)) < columns
        assert ("─" in last_line(stream)) is has_bar


def test_words_stand_above_the_bar(clock: Clock) -> None:
    stream = Terminal()
    with progress_on(stream, clock) as progress:
        progress.start("Downloading", 1_000_000, unit="bytes")
        progress.say("It broke off; going on.")
        assert "\r\x1b[KIt broke off; going on.\n\r\x1b[KDownloading" in stream.getvalue()


def test_what_follows_an_unfinished_bar_begins_on_its_own_line(clock: Clock) -> None:
    stream = Terminal()

    def fail_midway() -> None:
        with progress_on(stream, clock) as progress:
            progress.start("Downloading", 1_000_000, unit="bytes")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_midway()
    assert stream.getvalue().endswith("MB\n")


def test_no_color(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with progress_on(stream, clock) as progress:
        progress.start("Downloading", 1_000_000, unit="bytes")
    assert not re.search(r"\x1b\[\d+m", stream.getvalue())
    assert "─" in stream.getvalue()


def test_a_terminal_without_unicode_gets_ascii(clock: Clock) -> None:
    stream = AsciiTerminal()
    with progress_on(stream, clock) as progress:
        progress.start("Downloading", 2_000_000, unit="bytes", already=1_000_000)
    assert stream.getvalue().isascii()
    assert "##" in stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "term"),
    [
        pytest.param(io.StringIO(), "xterm", id="pipe"),
        pytest.param(Terminal(), "dumb", id="dumb terminal"),
    ],
)
def test_a_pipe_gets_plain_lines(
    stream: io.StringIO, term: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    with progress_on(stream, clock) as progress:
        progress.say("Looking.")
        progress.start("Downloading", 100_000_000, unit="bytes")
        for _ in range(24):
            clock.now_s += 1
            progress.advance(4_000_000)
        progress.done()
    assert stream.getvalue().splitlines() == [
        "Looking.",
        "Downloading: 0.0 of 100.0 MB",
        "  40.0 of 100.0 MB  4.0 MB/s  0:15 left",
        "  80.0 of 100.0 MB  4.0 MB/s  0:05 left",
        "Downloading: done in 0:24",
    ]


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0.4, "0:00"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03")],
)
def test_duration_text(duration_s: float, text: str) -> None:
    assert duration_text(duration_s) == text
