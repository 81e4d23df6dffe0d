"""What a process has computed, in the two forms that systems tell it."""

from __future__ import annotations

import os
import time

import pytest
from measuring import process
from measuring.process import cpu_seconds


def test_of_this_process() -> None:
    before_s, began_s = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - began_s < 0.05:
        pass
    assert cpu_seconds(os.getpid()) - before_s == pytest.approx(0.05, abs=0.03)


def test_of_a_line_of_proc() -> None:
    head = "12 (a program) with) brackets) S 1 2 3 4 5 6 7 8 9 10"
    assert process._of_stat(f"{head} 250 75 0 0 20", 100) == 3.25


@pytest.mark.parametrize(
    ("text", "seconds"), [("  0:00.07\n", 0.07), ("12:34.50", 754.5), ("1:00:01.00", 3601.0)]
)
def test_of_a_clock(text: str, seconds: float) -> None:
    assert process._of_clock(text) == pytest.approx(seconds)
