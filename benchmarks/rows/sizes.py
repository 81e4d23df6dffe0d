"""How much each row does: enough to tell, and no more than a CPU does in minutes."""

from __future__ import annotations

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    num_runs: int = 5
    num_streams: int = 32
    num_arrivals: int = 16
    prompt_tokens: int = 64
    answer_tokens: int  # of one stream
    batch_prompt_tokens: int
    batch_answer_tokens: int  # of each of many
    long_prompt_tokens: int = 4000
    num_gaps_alone: int  # of a stream, before the long prompt comes
    num_requests: int = 500
    num_first_requests: int = 10
    num_memory_runs: int  # of what is counted, not timed
    known_tokens: int = 2000  # that prompts begin with alike
    full_store_tokens: int
    num_texts: int = 512  # to be made vectors of
    speech_s: float = 60.0
    long_speech_s: float = 600.0


TINY = Sizes(
    answer_tokens=512,
    batch_prompt_tokens=64,
    batch_answer_tokens=128,
    num_gaps_alone=256,
    num_memory_runs=5,
    full_store_tokens=131_072,  # some two thousand prompts
)
# On MLX's CPU build SmolLM2 writes some ten tokens a second, and reads a hundred.
REAL = Sizes(
    answer_tokens=64,
    batch_prompt_tokens=32,
    batch_answer_tokens=48,
    num_gaps_alone=32,
    num_memory_runs=1,
    full_store_tokens=2048,
)


def sizes_for(*, is_tiny: bool, is_quick: bool) -> Sizes:
    sizes = TINY if is_tiny else REAL
    if not is_quick:
        return sizes
    return msgspec.structs.replace(
        sizes,
        num_runs=2,
        answer_tokens=sizes.answer_tokens // 2,
        batch_answer_tokens=sizes.batch_answer_tokens // 2,
        long_prompt_tokens=sizes.long_prompt_tokens if is_tiny else 1000,
        num_gaps_alone=sizes.num_gaps_alone // 2,
        num_requests=60,
        num_memory_runs=1,
        full_store_tokens=sizes.full_store_tokens // 4,
        num_texts=128,
        speech_s=30.0,
        long_speech_s=90.0,
    )
