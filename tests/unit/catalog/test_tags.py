"""Ollama's names lead to the one model that they can mean, and never to another."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.catalog.names import NameIndex, Naming, assign_ids
from maxi_mlx.catalog.tags import may_mean
from maxi_mlx.core.errors import ModelNotFound
from tests.unit.catalog.folders import write_model

MEANT = [
    ("smollm2", "SmolLM2-135M-Instruct"),
    ("smollm2:latest", "SmolLM2-135M-Instruct"),
    ("SmolLM2:135M", "SmolLM2-135M-Instruct"),
    ("smollm2:135m-instruct", "SmolLM2-135M-Instruct"),
    ("qwen3:4b", "Qwen3-4B-4bit"),
    ("qwen3:4b-instruct-2507-q4_K_M", "Qwen3-4B-Instruct-2507-4bit"),
    ("qwen3:4b-thinking", "Qwen3-4B-Thinking-2507-8bit"),
    ("qwen3:30b", "Qwen3-30B-A3B-4bit-DWQ"),
    ("qwen3:30b-a3b", "Qwen3-30B-A3B-4bit"),
    ("qwen2.5-coder:7b", "Qwen2.5-Coder-7B-Instruct-4bit"),
    ("qwen2.5vl:7b", "Qwen2.5-VL-7B-Instruct-8bit"),
    ("llama3.2:3b", "Llama-3.2-3B-Instruct-4bit"),
    ("gemma3:4b", "gemma-3-4b-it-qat-4bit"),
    ("gemma3n:e2b", "gemma-3n-E2B-it-4bit"),
    ("mistral:7b", "Mistral-7B-Instruct-v0.3-4bit"),
    ("mixtral:8x7b", "Mixtral-8x7B-Instruct-v0.1-4bit"),
    ("nomic-embed-text", "nomic-embed-text-v1.5"),
    ("all-minilm", "all-MiniLM-L6-v2"),
    ("all-minilm:l6-v2", "all-MiniLM-L6-v2"),
    ("embeddinggemma", "embeddinggemma-300m-bf16"),
    ("gpt-oss:20b", "gpt-oss-20b-MXFP4-4bit"),
]
NOT_MEANT = [
    ("qwen3:8b", "Qwen3-4B-4bit"),
    ("qwen3:4b", "Qwen3-Coder-4B-4bit"),
    ("qwen3", "Qwen3-Embedding-0.6B"),
    ("qwen3:0.6b", "Qwen3-Reranker-0.6B"),
    ("qwen3:4b", "Qwen3-4B-Base"),
    ("qwen3:4b", "Qwen3-4B-Thinking-2507-8bit"),
    ("qwen3:4b-q8_0", "Qwen3-4B-4bit"),
    ("qwen3:4bit", "Qwen3-4B-8bit"),
    ("qwen2.5:7b", "Qwen2.5-Coder-7B-Instruct"),
    ("qwen2.5:7b", "Qwen2.5-VL-7B-Instruct"),
    ("llama3", "Llama-3.2-3B-Instruct"),
    ("llama3.2:3b", "Llama-3.2-11B-Vision-Instruct"),
    ("phi3", "Phi-3.5-mini-instruct"),
    ("mistral", "Mistral-Small-24B-Instruct"),
    ("deepseek-r1:8b", "DeepSeek-R1-Distill-Llama-8B"),
    ("all-minilm:l12-v2", "all-MiniLM-L6-v2"),
    ("qwen", "Qwen3-4B"),
    ("3", "Qwen3-4B"),
    ("", "Qwen3-4B"),
    (":4b", "Qwen3-4B"),
    ("qwen3:4b-4b", "Qwen3-4B"),
]


@pytest.mark.parametrize(("wanted", "name"), MEANT)
def test_a_name_of_ollamas_may_mean_a_model(wanted: str, name: str) -> None:
    assert may_mean(wanted, name)


@pytest.mark.parametrize(("wanted", "name"), NOT_MEANT)
def test_it_never_means_another(wanted: str, name: str) -> None:
    assert not may_mean(wanted, name)


@given(st.text(max_size=30), st.sampled_from([name for _, name in MEANT]))
def test_any_name_at_all_gets_an_answer(wanted: str, name: str) -> None:
    assert may_mean(wanted, name) in (True, False)


def index(*names: str, broken: tuple[str, ...] = ()) -> NameIndex:
    namings = [
        Naming(
            name=name.rpartition("/")[2],
            org=name.rpartition("/")[0] or None,
            label=f"root {place}",
            paths=(f"/{place}/{name}",),
            is_servable=name not in broken,
        )
        for place, name in enumerate(names)
    ]
    return NameIndex(assign_ids(namings), namings)


def test_of_several_none_is_meant() -> None:
    both = index("Qwen3-4B-4bit", "Qwen3-0.6B-4bit")
    assert both.find_tagged("qwen3") is None
    assert both.find_tagged("qwen3:4b") == 0
    assert both.find_tagged("qwen3:0.6b") == 1
    quantised = index("Qwen3-4B-4bit", "Qwen3-4B-8bit")
    assert quantised.find_tagged("qwen3:4b") is None
    assert quantised.find_tagged("qwen3:4b-q8_0") == 1
    assert index("a/Qwen3-4B", "b/Qwen3-4B").find_tagged("qwen3") is None


def test_of_copies_the_first_that_works_is_meant() -> None:
    assert index("a/Qwen3-4B", "a/Qwen3-4B").find_tagged("qwen3:4b") == 0
    assert index("Qwen3-4B", "Qwen3-8B", broken=("Qwen3-4B",)).find_tagged("qwen3") == 1


def test_a_catalog_looks_again_before_it_takes_a_name_for_another(tmp_path: Path) -> None:
    write_model(tmp_path / "Qwen3-4B-4bit")
    catalog = Catalog([Root(tmp_path, "tests", "folders")])
    assert catalog.find("qwen3:4b").id == "Qwen3-4B-4bit"
    assert catalog.find("qwen3").id == "Qwen3-4B-4bit"
    write_model(tmp_path / "Qwen3-8B-4bit")
    assert catalog.find("qwen3:8b").id == "Qwen3-8B-4bit"
    with pytest.raises(ModelNotFound, match=r"Qwen3-[48]B-4bit"):
        catalog.find("qwen3")
    write_model(tmp_path / "qwen3")
    assert catalog.find("qwen3").id == "qwen3"
