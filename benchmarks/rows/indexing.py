"""What an indexing run gets done, beside in-process mlx-embeddings, and what a chat feels of it.

Texts of 1 to 512 words, as many short ones as long ones by the logarithm, from several clients at
once. MiniLM reads 256 tokens of a text; both cut there. In process they come sorted by length and
in batches of the size that is the quickest here.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from measuring.failure import MeasurementFailed
from measuring.fetched_models import minilm_folder
from measuring.in_process_vectors import InProcessVectors
from measuring.models import endless_copy
from measuring.prompts import WORDS, make_prompt
from measuring.server import Running, running_server
from measuring.turns import Contender, take_turns

from rows.apart import NAME, Apart
from rows.bench import DEFAULT_STRATEGY, IN_PROCESS, OURS, ROUND_TIMEOUT_S
from rows.beside import Beside, stream_beside
from rows.figure import Figure, RowResult, at_least, at_most, median, quotients

NUM_CLIENTS = 8
TEXTS_PER_REQUEST = 16
MAX_TOKENS = 256
MOST_WORDS = 512
BATCH_SIZES = (4, 8, 16, 32, 64, 128)
MUCH_SLOWER = 0.7
GAPS_ALONE = 32
PROMPT_TOKENS = 64


class _Answer(msgspec.Struct):
    data: list[Any]


async def measure(apart: Apart) -> RowResult:
    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as root:
        chat = endless_copy(apart.tokenizer_source, Path(root))
        folder = minilm_folder(Path(root))
        in_process = InProcessVectors(folder, max_tokens=MAX_TOKENS)
        async with running_server(chat.folder) as server:
            speeds, batch_size = await _speeds(apart, server, folder.name, in_process)
            in_process.close()
            besides = await _besides(apart, server, folder.name)
    gap_ms = median([beside.median_gap_s * 1000 for beside in besides])
    longest_ms = median([beside.longest_gap_s * 1000 for beside in besides])
    noise = median([beside.longest_before_s / beside.median_gap_s for beside in besides])
    ours, theirs = (median(speeds[name]) for name in (OURS, IN_PROCESS))
    what = f"{apart.sizes.num_texts} texts to vectors, {NUM_CLIENTS} clients"
    figures = [
        Figure(
            what=f"{what} ÷ in-process mlx-embeddings",
            target=at_least(0.9),
            runs=quotients(speeds[OURS], speeds[IN_PROCESS]),
            detail=f"{ours:.1f} and {theirs:.1f} texts/s in batches of {batch_size}",
        ),
        Figure(
            what=f"longest gap of a {chat.name} stream beside them ÷ its median",
            target=at_most(4.0),
            runs=[beside.longest_gap_s / beside.median_gap_s for beside in besides],
            detail=f"{longest_ms:.1f} and {gap_ms:.1f} ms; with no texts {noise:.1f}",
        ),
    ]
    return RowResult(
        row="indexing",
        model=NAME,
        strategy=DEFAULT_STRATEGY,
        figures=figures,
        raw={"texts_per_s": speeds, "besides": besides},
    )


async def _speeds(
    apart: Apart, server: Running, model: str, in_process: InProcessVectors
) -> tuple[dict[str, list[float]], int]:
    """Texts a second of both, and the size of in-process batches."""
    number = apart.sizes.num_texts
    batch_size = await _best_batch(in_process, make_texts(0, number=number))

    async def ours(texts: Sequence[str]) -> float:
        began_s, ended_s = await index(server, model, texts)
        return len(texts) / (ended_s - began_s)

    async def theirs(texts: Sequence[str]) -> float:
        return await in_process.texts_per_s(texts, batch_size=batch_size)

    contenders: dict[str, Contender[float]] = {OURS: ours, IN_PROCESS: theirs}
    rounds = await take_turns(
        contenders,
        lambda index: make_texts(1 + index, number=number),
        num_rounds=apart.sizes.num_runs,
    )
    return rounds, batch_size


async def _best_batch(in_process: InProcessVectors, texts: Sequence[str]) -> int:
    """The size that is the quickest; larger ones than that are tried until they are much slower."""
    best, best_size = 0.0, 0
    for size in BATCH_SIZES:
        # Twice, since the first run of a size takes its memory.
        speeds = [await in_process.texts_per_s(texts, batch_size=size) for _ in range(2)]
        if max(speeds) < best * MUCH_SLOWER:
            break
        if max(speeds) > best:
            best, best_size = max(speeds), size
    return best_size


async def _besides(apart: Apart, server: Running, model: str) -> list[Beside]:
    besides = []
    for run in range(apart.sizes.num_runs + 1):
        texts = make_texts(1000 + run, number=apart.sizes.num_texts)
        prompt = make_prompt(run, num_tokens=PROMPT_TOKENS, seed=2)

        async def work(texts: Sequence[str] = texts) -> tuple[float, float]:
            return await index(server, model, texts)

        beside = await stream_beside(server, prompt, work, num_gaps_alone=GAPS_ALONE)
        if run:  # the chat model's kernels are compiled in the first one
            besides.append(beside)
        await asyncio.sleep(0.5)  # until the stream has left
    return besides


def make_texts(index: int, *, number: int) -> list[str]:
    """In no order; the same index gives the same ones."""
    chance = random.Random(f"texts/{index}")
    lengths = [round(MOST_WORDS ** ((place + 0.5) / number)) for place in range(number)]
    texts = [" ".join(chance.choices(WORDS, k=length)) for length in lengths]
    chance.shuffle(texts)
    return texts


async def index(server: Running, model: str, texts: Sequence[str]) -> tuple[float, float]:
    """When the first request was sent and the last one answered. A client has one request on its
    way at a time; its answers are read when all is over."""
    bodies = [
        msgspec.json.encode(
            {
                "model": model,
                "input": texts[begin : begin + TEXTS_PER_REQUEST],
                "encoding_format": "base64",  # as OpenAI's client asks for them
                "truncate": True,
            }
        )
        for begin in range(0, len(texts), TEXTS_PER_REQUEST)
    ]
    waiting, answers = iter(bodies), []

    async def client(session: aiohttp.ClientSession) -> None:
        for body in waiting:
            async with session.post(f"{server.url}/embeddings", data=body) as response:
                answers.append((response.status, await response.read()))

    timeout = aiohttp.ClientTimeout(total=ROUND_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        began_s = time.perf_counter()
        await asyncio.gather(*(client(session) for _ in range(NUM_CLIENTS)))
        ended_s = time.perf_counter()
    for status, data in answers:
        if status != 200:
            raise MeasurementFailed(f"{server.name}: HTTP {status} {data[:500]!r} for texts")
    num_vectors = sum(len(msgspec.json.decode(data, type=_Answer).data) for _, data in answers)
    if num_vectors != len(texts):
        raise MeasurementFailed(f"{server.name}: {num_vectors} vectors of {len(texts)} texts")
    return began_s, ended_s
