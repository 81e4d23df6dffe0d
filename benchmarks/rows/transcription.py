"""How long the server takes for a recording, beside in-process mlx-whisper, and what a chat feels
of a long one. The speech is that of the tests: sentences by espeak-ng, with short pauses.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import time
import wave
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from measuring.failure import MeasurementFailed
from measuring.fetched_models import whisper_folder
from measuring.in_process_speech import InProcessSpeech
from measuring.models import endless_copy
from measuring.prompts import make_prompt
from measuring.server import Running, running_server

from rows.apart import NAME, Apart
from rows.bench import DEFAULT_STRATEGY, IN_PROCESS, OURS, ROUND_TIMEOUT_S
from rows.beside import Beside, stream_beside
from rows.figure import Figure, RowResult, at_most, median, quotients
from rows.sizes import Sizes

CLIPS = Path(__file__).parents[2] / "tests" / "data" / "speech"
RATE = 16_000
PAUSE_S = 0.7
WINDOW_S = 30
MOST_LONG_RUNS = 2
GAPS_ALONE = 32
PROMPT_TOKENS = 64


class _Answer(msgspec.Struct):
    text: str


class Round(msgspec.Struct, frozen=True):
    seconds: float
    text: str


async def measure(apart: Apart) -> RowResult:
    sizes = apart.sizes
    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as root:
        chat = endless_copy(apart.tokenizer_source, Path(root))
        folder = whisper_folder(Path(root))
        in_process = InProcessSpeech(folder)
        sound = speech(sizes.speech_s)
        async with running_server(chat.folder) as server:
            rounds = await _rounds(server, folder.name, in_process, sound, sizes.num_runs)
            window = sound[: WINDOW_S * RATE]
            windows_s = [await in_process.window_s(window) for _ in range(sizes.num_runs)]
            in_process.close()
            num_long = min(sizes.num_runs, MOST_LONG_RUNS)
            long_sound = speech(sizes.long_speech_s)
            besides = [
                await _beside(server, folder.name, long_sound, run) for run in range(num_long)
            ]
    return RowResult(
        row="transcription",
        model=NAME,
        strategy=DEFAULT_STRATEGY,
        figures=_figures(sizes, chat.name, rounds, windows_s, besides),
        raw={"rounds": rounds, "windows_s": windows_s, "besides": besides},
    )


def _figures(
    sizes: Sizes,
    chat: str,
    rounds: Mapping[str, Sequence[Round]],
    windows_s: Sequence[float],
    besides: Sequence[Beside],
) -> list[Figure]:
    seconds = {name: [each.seconds for each in runs] for name, runs in rounds.items()}
    ours, theirs = (median(seconds[name]) / sizes.speech_s for name in (OURS, IN_PROCESS))
    window_s = median(windows_s)
    longest_s = median([beside.longest_gap_s for beside in besides])
    return [
        Figure(
            what=f"{sizes.speech_s:.0f} s of speech to text ÷ in-process mlx-whisper",
            target=at_most(1.05),
            runs=quotients(seconds[OURS], seconds[IN_PROCESS]),
            detail=f"{ours:.3f} and {theirs:.3f} s for a second of speech",
        ),
        Figure(
            what=f"longest gap of a {chat} stream beside {sizes.long_speech_s / 60:.3g} min "
            "of speech ÷ a window's time",
            target=at_most(1.2),
            runs=[beside.longest_gap_s / window_s for beside in besides],
            detail=f"{longest_s * 1000:.0f} and {window_s * 1000:.0f} ms",
        ),
    ]


async def _rounds(
    server: Running, model: str, in_process: InProcessSpeech, sound: Any, num_runs: int
) -> dict[str, list[Round]]:
    """Both on the same sound, who begins changing; the first round is not counted."""
    file = wav(sound)
    rounds: dict[str, list[Round]] = {OURS: [], IN_PROCESS: []}

    async def ours() -> Round:
        began_s, ended_s, text = await transcribe(server, model, file)
        return Round(ended_s - began_s, text)

    async def theirs() -> Round:
        return Round(*await in_process.transcribe(sound))

    contenders = [(OURS, ours), (IN_PROCESS, theirs)]
    for run in range(num_runs + 1):
        for name, contender in contenders if run % 2 else reversed(contenders):
            result = await contender()
            if run:
                rounds[name].append(result)
    return rounds


async def _beside(server: Running, model: str, sound: Any, run: int) -> Beside:
    file = wav(sound)

    async def work() -> tuple[float, float]:
        began_s, ended_s, _ = await transcribe(server, model, file)
        return began_s, ended_s

    prompt = make_prompt(run, num_tokens=PROMPT_TOKENS, seed=3)
    beside = await stream_beside(server, prompt, work, num_gaps_alone=GAPS_ALONE)
    await asyncio.sleep(0.5)  # until the stream has left
    return beside


def speech(seconds: float) -> Any:
    """Samples of the tests' sentences one after the other, over and over."""
    import numpy as np

    from maxi_mlx.engine.speech.sound import read_sound

    pause = np.zeros(round(PAUSE_S * RATE), np.float32)
    parts: list[Any] = []
    for path in sorted(CLIPS.glob("*.ogg")):
        with path.open("rb") as file:
            parts += [*read_sound(file), pause]
    return np.resize(np.concatenate(parts), round(seconds * RATE))


def wav(samples: Any) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes((samples * 32767).astype("<i2").tobytes())
    return file.getvalue()


async def transcribe(server: Running, model: str, file: bytes) -> tuple[float, float, str]:
    """When the file was sent, when its text was there, and the text."""
    form = aiohttp.FormData()
    form.add_field("model", model)
    form.add_field("file", io.BytesIO(file), filename="speech.wav")
    timeout = aiohttp.ClientTimeout(total=ROUND_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        began_s = time.perf_counter()
        url = f"{server.url}/audio/transcriptions"
        async with session.post(url, data=form) as response:
            data = await response.read()
        ended_s = time.perf_counter()
    if response.status != 200:
        raise MeasurementFailed(f"{server.name}: HTTP {response.status} {data[:500]!r} for speech")
    text = msgspec.json.decode(data, type=_Answer).text
    if not text:
        raise MeasurementFailed(f"{server.name}: heard nothing in the speech")
    return began_s, ended_s, text
