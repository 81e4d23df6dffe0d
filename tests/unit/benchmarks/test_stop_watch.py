"""The time of texts that this process writes."""

from __future__ import annotations

import time

import pytest
from measuring.stop_watch import StopWatch


def test_texts_that_begin_one_after_the_other() -> None:
    watch = StopWatch(num_texts=2)
    for text in (0, 0, 1, 0, 1):
        watch.note(text)
        time.sleep(0.05)
    speed = watch.speed()
    assert speed.num_tokens == 5
    assert speed.num_cpu_tokens == 2  # since both had begun
    first_s, second_s = speed.first_token_s
    assert second_s - first_s >= 0.1
    assert speed.seconds >= 0.25
    assert 0 <= speed.cpu_s < 0.12  # sleeping computes nothing


def test_a_text_that_never_began() -> None:
    watch = StopWatch(num_texts=2)
    watch.note(1)
    with pytest.raises(ValueError, match="1 of 2 texts have begun"):
        watch.speed()
