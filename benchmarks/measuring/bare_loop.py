"""The least that a batch costs: the model's step, the likeliest token of each row, and its text.

mlx-lm's own batch generator also computes every token's log-probability, asked for or not, which
on a large vocabulary and a small model is most of its time. Runs on the thread of its caller.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from measuring.speed import Speed


def generate_bare(model: Any, tokenizer: Any, prompts: Sequence[str], max_tokens: int) -> Speed:
    """The prompts have to be of one length: without padding it needs no masks."""
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache

    began = time.perf_counter()
    token_ids = mx.array([tokenizer.encode(prompt) for prompt in prompts])
    cache = make_prompt_cache(model)
    texts = [tokenizer.detokenizer for _ in prompts]
    drawn = mx.argmax(model(token_ids, cache=cache)[:, -1, :], axis=-1)
    mx.async_eval(drawn)  # type: ignore[no-untyped-call]
    first_s = 0.0
    for index in range(max_tokens):
        known = drawn
        if index + 1 < max_tokens:  # the next step is computed while this one's text is made
            drawn = mx.argmax(model(known[:, None], cache=cache)[:, -1, :], axis=-1)
            mx.async_eval(drawn)  # type: ignore[no-untyped-call]
        for text, token_id in zip(texts, cast(list[int], known.tolist()), strict=True):
            text.add_token(token_id)
            _ = text.last_segment
        first_s = first_s or time.perf_counter() - began
    seconds = time.perf_counter() - began
    return Speed(len(prompts) * max_tokens, seconds, (first_s,) * len(prompts))
