"""What a request leaves open is filled in from its model."""

from __future__ import annotations

from maxi_mlx.core.request import SamplingParams
from maxi_mlx.engine.admission import fill_in_defaults
from tests.engine.conftest import LoadTiny


def test_the_model_fills_in_what_is_left_open(load_tiny: LoadTiny) -> None:
    filled = fill_in_defaults(SamplingParams(top_k=7), load_tiny("llama"))
    assert (filled.temperature, filled.top_p, filled.top_k, filled.min_p) == (1.0, 1.0, 7, 0.0)
    assert (filled.xtc_probability, filled.xtc_threshold, filled.xtc_spared) == (0.0, 0.1, ())


def test_xtc_spares_the_ends_of_answers_and_lines(load_tiny: LoadTiny) -> None:
    for family in ("llama", "llama-spm", "qwen2", "gemma3"):
        model = load_tiny(family)
        spared = fill_in_defaults(SamplingParams(xtc_probability=0.5), model).xtc_spared
        line_ends = set(spared) - model.end_ids
        assert {model.vocabulary.data(i) for i in line_ends} == {b"\n"}, family
        assert model.end_ids < set(spared)
