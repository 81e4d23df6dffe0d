"""Answers of a model that knows nothing: every token that may come is equally likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maxi_mlx.engine.grammar.compiler import CompiledGrammar
from maxi_mlx.engine.grammar.masks import MaskWriter
from maxi_mlx.engine.grammar.matcher import Matcher

WRITER = MaskWriter(2)


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    token_ids: list[int]
    is_whole: bool  # it ended where it may


def allowed_tokens(matcher: Matcher, num_left: int) -> list[int]:
    masks = WRITER.write([(matcher, num_left)])
    bits = np.unpackbits(masks.view(np.uint8)[0], bitorder="little")
    return [int(i) for i in np.flatnonzero(bits)]


def random_answer(
    grammar: CompiledGrammar, *, max_tokens: int, seed: int, begin: Sequence[int] = ()
) -> Answer:
    """``begin``: tokens that are drawn first, whatever else might come."""
    matcher = Matcher(grammar, max_tokens=max_tokens)
    random = np.random.default_rng(seed)
    token_ids: list[int] = []
    while len(token_ids) < max_tokens and not matcher.is_complete:
        num_left = max_tokens - len(token_ids)
        allowed = allowed_tokens(matcher, num_left)
        if matcher.fault:
            raise matcher.fault
        assert max(allowed) < grammar.tokenizer.size
        place = len(token_ids)
        drawn = begin[place] if place < len(begin) else int(random.choice(allowed))
        token_id = matcher.commit(drawn, num_left=num_left)
        if token_id == grammar.tokenizer.end_id:
            break
        token_ids.append(token_id)
    data = b"".join(map(grammar.tokenizer.data, token_ids))
    return Answer(data.decode("utf-8"), token_ids, is_whole=matcher.is_accepting)
