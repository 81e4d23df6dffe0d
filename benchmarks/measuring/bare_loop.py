"""The least that a batch costs: the model's step, the likeliest token of each row, and its text.

mlx-lm's own batch generator also computes every token's log-probability, asked for or not, which
on a large vocabulary and a small model is most of its time. Runs on the thread of its caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from measuring.speed import Speed
from measuring.stop_watch import StopWatch


def generate_bare(model: Any, tokenizer: Any, prompts: Sequence[str], max_tokens: int) -> Speed:
    """The prompts have to be of one length: without padding it needs no masks."""
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache

    watch = StopWatch(num_texts=len(prompts))
    token_ids = mx.array([tokenizer.encode(prompt) for prompt in prompts])
    cache = make_prompt_cache(model)
    texts = [tokenizer.detokenizer for _ in prompts]
    drawn = mx.argmax(model(token_ids, cache=cache)[:, -1, :], axis=-1)
    mx.async_eval(drawn)  # type: ignore[no-untyped-call]
    for index in range(max_tokens):
        known = drawn
        if index + 1 < max_tokens:  # the next step is computed while this one's text is made
            drawn = mx.argmax(model(known[:, None], cache=cache)[:, -1, :], axis=-1)
            mx.async_eval(drawn)  # type: ignore[no-untyped-call]
        for place, token_id in enumerate(cast(list[int], known.tolist())):
            texts[place].add_token(token_id)
            _ = texts[place].last_segment
            watch.note(place)
    return watch.speed()
