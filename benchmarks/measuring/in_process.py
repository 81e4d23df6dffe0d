"""The same work by mlx-lm in this process: what the server is measured against.

One text at a time by stream_generate, several at once by its batch generator, both with their
text put together as a server has to. Owns the model; all of it happens on one thread of its own,
because mlx's lazy arrays belong to the thread that made them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measuring.bare_loop import generate_bare
from measuring.speed import Speed
from measuring.stop_watch import StopWatch

CUT_TRIES = 16
MEASURED_TOKENS = 256  # what mlx-lm's caches grow by: all that they have taken is in use


class InProcess:
    """Loads the model when made; `close` lets go of its thread."""

    def __init__(self, folder: Path) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="in-process")
        self._model, self._tokenizer = self._thread.submit(_load, folder).result()

    async def measure(
        self, prompts: Sequence[str], *, max_tokens: int, is_bare: bool = False
    ) -> Speed:
        """As many at once as there are prompts; with ``is_bare``, without mlx-lm's generators.
        Nothing else should run in this process: its processor time is taken for this work's."""
        work = _generate_one if len(prompts) == 1 else _generate_many
        if is_bare:
            work = generate_bare
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: work(self._model, self._tokenizer, prompts, max_tokens)
        )

    def cut(self, text: str, num_tokens: int) -> str:
        """The beginning of ``text``, exactly so many tokens long."""
        return self._thread.submit(_cut, self._tokenizer, text, num_tokens).result()

    def chat_tokens(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """What a server reads of a chat."""
        apply = self._tokenizer.apply_chat_template
        token_ids = self._thread.submit(
            lambda: apply(messages, tokenize=True, add_generation_prompt=True, return_dict=False)
        )
        return list(token_ids.result())

    def cache_bytes_per_token(self) -> float:
        """Of a row's KV cache, where that grows with every token."""
        return self._thread.submit(_cache_bytes_per_token, self._model).result()

    def close(self) -> None:
        self._thread.shutdown()


def _load(folder: Path) -> tuple[Any, Any]:
    from maxi_mlx.engine import device

    device.prepare("auto")  # the BLAS that the server has
    import mlx_lm

    device.select()
    model, tokenizer = mlx_lm.load(str(folder))[:2]
    return model, tokenizer


def _cut(tokenizer: Any, text: str, num_tokens: int) -> str:
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    # A cut within a word may be read in other pieces than the word was.
    for end in range(num_tokens, min(num_tokens + CUT_TRIES, len(token_ids))):
        cut: str = tokenizer.decode(token_ids[:end])
        if len(tokenizer.encode(cut, add_special_tokens=False)) == num_tokens:
            return cut
    raise ValueError(f"found no beginning of {num_tokens} tokens in {len(token_ids)}")


def _cache_bytes_per_token(model: Any) -> float:
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)
    model(mx.zeros((1, MEASURED_TOKENS), dtype=mx.uint32), cache=cache)
    mx.eval([entry.state for entry in cache])
    num_bytes: int = sum(entry.nbytes for entry in cache)
    return num_bytes / MEASURED_TOKENS


def _generate_one(model: Any, tokenizer: Any, prompts: Sequence[str], max_tokens: int) -> Speed:
    from mlx_lm import stream_generate

    watch = StopWatch(num_texts=1)
    for _ in stream_generate(model, tokenizer, prompts[0], max_tokens=max_tokens):
        watch.note(0)
    return watch.speed()


def _generate_many(model: Any, tokenizer: Any, prompts: Sequence[str], max_tokens: int) -> Speed:
    from mlx_lm.generate import BatchGenerator

    watch = StopWatch(num_texts=len(prompts))
    generator = BatchGenerator(
        model,
        stop_tokens=[[token_id] for token_id in tokenizer.eos_token_ids],
        completion_batch_size=len(prompts),
    )
    token_ids = [tokenizer.encode(prompt) for prompt in prompts]
    uids = generator.insert(token_ids, [max_tokens] * len(prompts))
    texts = dict.fromkeys(uids, tokenizer.detokenizer)
    while responses := generator.next_generated():
        for response in responses:
            texts[response.uid].add_token(response.token)
            _ = texts[response.uid].last_segment
            watch.note(response.uid)
    generator.close()
    return watch.speed()
