"""One answer as the device thread sees it, and the prompt that several answers may share."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxi_mlx.engine.mailbox import Mailbox, TokenEnd

if TYPE_CHECKING:
    import mlx.core as mx

    from maxi_mlx.engine.guide import Guide
    from maxi_mlx.engine.vision.pictures import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSampling:
    """`SamplingParams` with the model's defaults filled in; every value is set and checked."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    xtc_probability: float
    xtc_threshold: float
    xtc_spared: tuple[int, ...]  # tokens that XTC never leaves out: ends, line breaks
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: tuple[tuple[int, float], ...]
    seed: int

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0 or self.top_k == 1

    @property
    def counts_tokens(self) -> bool:
        """Whether it matters how often the answer has a token."""
        return self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def changes_logits(self) -> bool:
        return self.repetition_penalty != 1 or self.counts_tokens or bool(self.logit_bias)


def draw_key(seed: int, choice: int) -> tuple[int, int]:
    """The random key of one answer: two 32-bit words, the same on every machine and run.

    The step's number is added to the second word, so that a draw depends on nothing but seed,
    answer and place in the text: not on neighbours, batches or restarts.
    """
    digest = hashlib.blake2b(f"{seed}/{choice}".encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


@dataclass(slots=True, kw_only=True, eq=False)
class Row:
    """One answer. Lives on the device thread; the loop only sets ``cancelled``.

    ``token_ids`` are the prompt and what was generated so far. ``is_suspect`` once it was in a
    batch that failed: it then runs by itself, which shows whose fault it was. ``had_memory_freed``
    once there was no memory for it and stored prefixes made way: the next time it ends.
    """

    mailbox: Mailbox
    request_id: str
    choice: int
    sampling: RowSampling
    key: tuple[int, int]
    token_ids: list[int]
    num_prompt_tokens: int
    max_tokens: int
    end_ids: frozenset[int]
    top_logprobs: int | None
    guide: Guide | None = None  # where not every token may come
    pictures: tuple[Picture, ...] = ()  # of the prompt
    uses_cache: bool = True  # the prefix cache
    cancelled: bool = False
    is_suspect: bool = False
    had_memory_freed: bool = False
    arrived_s: float = field(default_factory=time.monotonic)

    @property
    def shift(self) -> int:
        """How far its answer's positions are from its tokens' count."""
        return sum(picture.shift for picture in self.pictures)

    @property
    def num_generated(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_tokens_left(self) -> int:
        return self.max_tokens - self.num_generated

    def end_by(self, token_id: int) -> TokenEnd | None:
        """Why the answer ends with this token, its latest; None: it goes on."""
        if token_id in self.end_ids:
            return "length" if self.guide is not None and self.guide.was_cut else "end_token"
        if self.guide is not None and self.guide.is_complete:
            return "complete"
        if self.num_tokens_left > 0:
            return None
        return "complete" if self.guide is not None and self.guide.is_whole else "length"


@dataclass(slots=True, kw_only=True, eq=False)
class PromptJob:
    """Tokens to read and the rows that go on from them; they are read once for all of the rows.

    ``num_processed`` tokens are in ``cache``; the last one is left for the first step.
    ``num_passed_over`` slices went to prompts that came later, since its last one. ``borders`` are
    places to stop at, in tokens, since others may go on from there: where messages end.

    ``looked_at`` is the image among the next tokens, and ``vectors`` those of its crops so far.
    """

    token_ids: Sequence[int]
    rows: list[Row]
    cache: list[Any] = field(default_factory=list)
    num_processed: int = 0
    num_passed_over: int = 0
    borders: tuple[int, ...] = ()
    pictures: tuple[Picture, ...] = ()
    was_restored: bool = False  # from the prefix cache's disk
    must_read_alone: bool = False
    looked_at: Picture | None = None
    vectors: list[mx.array] = field(default_factory=list)

    @property
    def mailbox(self) -> Mailbox:
        return self.rows[0].mailbox

    @property
    def uses_cache(self) -> bool:
        return self.rows[0].uses_cache

    @property
    def next_border(self) -> int | None:
        return next((place for place in self.borders if place > self.num_processed), None)

    @property
    def num_remaining(self) -> int:
        return len(self.token_ids) - 1 - self.num_processed


def resume(row: Row) -> PromptJob:
    """Reads a row's text anew, its answer so far included, to go on where it was."""
    if row.guide is not None:
        # It may have seen a token that was lost with the batch.
        row.guide = row.guide.replayed(row.token_ids[row.num_prompt_tokens :])
    return PromptJob(
        token_ids=list(row.token_ids),
        rows=[row],
        pictures=row.pictures,
        must_read_alone=row.is_suspect,
    )
