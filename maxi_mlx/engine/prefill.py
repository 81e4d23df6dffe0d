"""Runs the model over prompts, to fill their caches. Lives on the device thread.

A prompt's last token stays out: it is the input of the row's first step.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from maxi_mlx.engine.batch_cache import evaluate, extract_cache, merge_caches
from maxi_mlx.engine.row import PromptJob

if TYPE_CHECKING:
    from maxi_mlx.engine.vision.eyes import Eyes


def read_prompt(model: Any, job: PromptJob, num_tokens: int, *, eyes: Eyes | None = None) -> None:
    """The next ``num_tokens`` of one prompt. ``eyes`` have looked at the image among them."""
    if not num_tokens:
        return
    token_ids = job.token_ids[job.num_processed : job.num_processed + num_tokens]
    if eyes is not None and job.pictures:
        eyes.read(token_ids, job)
    else:
        model(mx.array(list(token_ids), dtype=mx.uint32)[None], cache=job.cache)
    evaluate(job.cache)
    job.num_processed += num_tokens


def read_prompts_together(model: Any, jobs: Sequence[PromptJob]) -> int:
    """Several prompts that nobody has begun, whole; returns the tokens computed, padding included.

    Shorter ones are padded on the right, which mlx-lm's batched caches take out again.
    """
    lengths = [job.num_remaining for job in jobs]
    longest = max(lengths)
    padding = [longest - length for length in lengths]
    cache = merge_caches([job.cache for job in jobs])
    if longest:
        rows = [
            [*job.token_ids[: job.num_remaining], *[0] * pad]
            for job, pad in zip(jobs, padding, strict=True)
        ]
        for entry in cache:
            entry.prepare(lengths=lengths, right_padding=padding)
        model(mx.array(rows, dtype=mx.uint32), cache=cache)
        for entry in cache:
            entry.finalize()
    for index, job in enumerate(jobs):
        if lengths[index]:
            job.cache = extract_cache(model, cache, index)
        # At once: a lazy slice would keep the whole padded cache in memory.
        evaluate(job.cache)
        job.num_processed += lengths[index]
    return longest * len(jobs)


def copy_cache(cache: list[Any]) -> list[Any]:
    """A cache of its own for another row; MLX copies the memory when one of them writes."""
    return copy.deepcopy(cache)
