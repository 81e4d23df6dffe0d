"""A speech model's work, driven slice by slice on the test's own thread."""

from __future__ import annotations

import gc
import io
import threading
from pathlib import Path

import pytest

from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.engine.mailbox import FaultNews, Mailbox, Outbox
from tests.engine.conftest import entry_for
from tests.models import whisper
from tests.sounds import needs_speech, voice, wav

pytestmark = needs_speech


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory):
    from maxi_mlx.engine.speech.speech_model import load_speech_model

    folder = whisper.build_whisper(tmp_path_factory.mktemp("models") / "whisper")
    return load_speech_model(entry_for(Path(folder)))


class Memory:
    """What a window needs, what is left, and whether others run that will give some back."""

    window_bytes = 1000
    left_bytes = 1000
    others_run = False


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def work(model, memory):
    from maxi_mlx.engine.speech.speech_work import SpeechWork

    return SpeechWork(
        model,
        window_bytes=memory.window_bytes,
        memory_left_bytes=lambda: memory.left_bytes,
        may_overrun=lambda _: not memory.others_run,
    )


def job_for(model, seconds: float):
    from maxi_mlx.engine.speech.recording import record
    from maxi_mlx.engine.speech.speech_job import SpeechJob

    return SpeechJob(
        mailbox=Mailbox(),
        request_id=f"{seconds} s",
        recording=record(io.BytesIO(wav(voice(seconds))), model.filters, stop=threading.Event()),
        task="transcribe",
        language="de",
        temperatures=(0.0,),
        wants_words=False,
    )


def run(work, *, slices: int = 10_000) -> Outbox:
    outbox: Outbox = []
    for _ in range(slices):
        if not work.has_work:
            return outbox
        work.read(0.0, outbox)  # as short as they come
    return outbox


@pytest.mark.slow
def test_recordings_take_turns_by_windows(model, work) -> None:
    jobs = [job_for(model, 70), job_for(model, 40)]
    for job in jobs:
        work.submit(job)
    assert (work.num_wanting, work.num_decoding) == (1, 0)
    order = [jobs.index(job) for box, _ in run(work) for job in jobs if job.mailbox is box]
    # Three windows and the end, and two and the end.
    assert order == [0, 1, 0, 1, 0, 1, 0]
    assert not work.has_work


def test_a_slice_is_a_part_of_a_window(model, work) -> None:
    work.submit(job_for(model, 5))
    outbox: Outbox = []
    num_slices = 0
    while not outbox:
        work.read(0.0, outbox)
        num_slices += 1
    assert num_slices > 10
    work.fail_all(lambda: EngineFailed("no more"), outbox)


def test_what_one_recording_raises_ends_it_alone(model, work) -> None:
    broken, sound = job_for(model, 5), job_for(model, 5)
    broken.recording.close()
    for job in (broken, sound):
        work.submit(job)
    outbox = run(work)
    assert [type(news) for box, news in outbox if box is broken.mailbox] == [FaultNews]
    [text] = ["".join(s.text for s in news.segments) for box, news in outbox
              if box is sound.mailbox and news.segments]  # fmt: skip
    assert text.strip() == whisper.TEXT
    assert work.fault is None


def test_a_recording_that_is_cancelled_is_closed(model, work) -> None:
    job = job_for(model, 70)
    work.submit(job)
    run(work, slices=3)
    work.cancel(job)
    assert not work.has_work
    with pytest.raises(ValueError):
        job.recording.window(0, num_frames=10, length=10)
    work.cancel(job_for(model, 1))  # one that never came


def test_a_model_that_is_unloaded_closes_its_recordings(model, work) -> None:
    job = job_for(model, 40)
    work.submit(job)
    work.close()
    assert not work.has_work
    with pytest.raises(ValueError):
        job.recording.window(0, num_frames=10, length=10)


def test_a_window_waits_for_memory_while_others_run(model, work, memory) -> None:
    memory.left_bytes, memory.others_run = 999, True
    work.submit(job_for(model, 5))
    assert work.promised_bytes == 1000  # others begin nothing with what is to be its
    outbox: Outbox = []
    work.prepare(outbox)
    assert (work.num_wanting, work.has_work) == (0, True)
    work.read(10.0, outbox)
    assert not outbox
    memory.left_bytes = 1000
    work.prepare(outbox)
    assert work.num_wanting == 1
    work.read(0.0, outbox)
    memory.left_bytes = 0  # it has taken its part
    work.prepare(outbox)
    assert work.num_wanting == 1
    run(work)
    assert (work.promised_bytes, work.has_work) == (0, False)


def test_with_nobody_to_wait_for_it_begins_all_the_same(model, work, memory) -> None:
    memory.left_bytes = 0
    work.submit(job_for(model, 5))
    run(work)
    assert not work.has_work


def test_one_that_leaves_in_a_window_leaves_no_room_behind(model, work, memory) -> None:
    first, second = job_for(model, 5), job_for(model, 5)
    for job in (first, second):
        work.submit(job)
    work.read(0.0, [])
    work.cancel(first)
    memory.left_bytes, memory.others_run = 0, True
    work.prepare([])
    assert work.num_wanting == 0
    work.cancel(second)


@pytest.mark.parametrize("wants_words", [False, True], ids=["text", "words"])
def test_what_a_window_takes_is_known(model, work, wants_words: bool) -> None:
    from maxi_mlx.engine.device import transient_bytes
    from maxi_mlx.engine.loading import finish
    from maxi_mlx.engine.speech.window_cost import measure_window

    known_bytes = finish(measure_window(model))
    job = job_for(model, 29)
    job.wants_words, job.language = wants_words, None
    work.submit(job)
    gc.collect()
    taken_bytes = transient_bytes(lambda: run(work))
    assert known_bytes / 3 < taken_bytes <= known_bytes
