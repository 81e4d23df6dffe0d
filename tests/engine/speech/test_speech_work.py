"""A speech model's work, driven slice by slice on the test's own thread."""

from __future__ import annotations

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


@pytest.fixture
def work(model):
    from maxi_mlx.engine.speech.speech_work import SpeechWork

    return SpeechWork(model)


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
