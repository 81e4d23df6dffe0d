"""Runs the model over prompts, to fill their caches. Lives on the device thread.

A prompt's last token stays out: it is the input of the row's first step.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from maxi_mlx.engine.batch import merge_caches
from maxi_mlx.engine.row import PromptJob


def read_prompt(model: Any, job: PromptJob, num_tokens: int) -> None:
    """The next ``num_tokens`` of one prompt."""
    if not num_tokens:
        return
    token_ids = job.token_ids[job.num_processed : job.num_processed + num_tokens]
    model(mx.array(list(token_ids), dtype=mx.uint32)[None], cache=job.cache)
    _evaluate(job.cache)
    mx.clear_cache()
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
            job.cache = [entry.extract(index) for entry in cache]
        job.num_processed += lengths[index]
    # At once: a lazy slice would keep the whole padded cache in memory.
    mx.eval([entry.state for job in jobs for entry in job.cache if not entry.empty()])
    mx.clear_cache()
    return longest * len(jobs)


def copy_cache(cache: list[Any]) -> list[Any]:
    """A cache of its own for another row; MLX copies the memory when one of them writes."""
    return copy.deepcopy(cache)


def _evaluate(cache: Sequence[Any]) -> None:
    """Computes what a cache holds, so that nothing lazy outlives the slice that made it."""
    mx.eval([entry.state for entry in cache if not entry.empty()])
