"""Masks against plain loops: written for many rows, and applied in either library."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from maxi_mlx.core.grammar import Constraint, Pattern, json_by_schema
from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.logits_mask import forbid
from maxi_mlx.engine.grammar.masks import MaskWriter
from maxi_mlx.engine.grammar.matcher import Matcher
from tests.engine.test_filters import LIBRARIES


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("size", [32, 33, 200, 511])
@pytest.mark.parametrize("places", [[0, 1, 2, 3], [2], [3, 0]], ids=["all", "one", "two"])
def test_forbidden_tokens_are_taken_out(xp: Any, size: int, places: list[int]) -> None:
    random = np.random.default_rng(size)
    values = random.standard_normal((4, size)).astype(np.float32)
    is_allowed = random.random((len(places), size)) < 0.5
    padded = np.zeros((len(places), -(-size // 32) * 32), dtype=np.uint8)
    padded[:, :size] = is_allowed
    masks = np.packbits(padded, axis=-1, bitorder="little").view(np.uint32)
    expected = values.copy()
    for place, row in zip(places, is_allowed, strict=True):
        expected[place][~row] = -np.inf
    given = xp.array(values)
    changed = np.array(forbid(xp, given, masks, places=places))
    np.testing.assert_array_equal(changed, expected)
    np.testing.assert_array_equal(np.array(given), values)


def test_a_mask_keeps_the_type_of_the_logits() -> None:
    values = mx.zeros((1, 40), dtype=mx.bfloat16)
    masks = np.array([[1, 0]], dtype=np.uint32)
    changed = forbid(mx, values, masks, places=[0])
    assert changed.dtype == mx.bfloat16
    assert changed[0].tolist() == [0.0] + [-float("inf")] * 39


def test_many_rows_together_are_as_each_alone(compiler: GrammarCompiler) -> None:
    nodes = [json_by_schema({"type": "object"}), Pattern("[a-z]+"), json_by_schema({"enum": ["a"]})]
    grammars = [compiler.compile(Constraint(node=node, param="x")) for node in nodes]
    rows = [(Matcher(grammars[i % 3], max_tokens=50), 50) for i in range(7)]
    together = MaskWriter(2).write(rows)
    alone = [MaskWriter().write([row])[0] for row in rows]
    np.testing.assert_array_equal(together, np.stack(alone))
    assert together.shape == (7, -(-compiler.tokenizer.size // 32))
    assert len({row.tobytes() for row in together[:3]}) == 3
