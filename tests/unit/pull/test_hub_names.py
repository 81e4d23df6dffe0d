"""Names of models on the hub, and which of a repository's files serve."""

from __future__ import annotations

import pytest

from maxi_mlx.catalog.pull.hub.files import serving, why_not_served
from maxi_mlx.catalog.pull.hub.repository import Repository, parse_repository


@pytest.mark.parametrize(
    ("text", "name", "revision"),
    [
        ("mlx-community/Qwen3-4B-4bit", "mlx-community/Qwen3-4B-4bit", "main"),
        ("org/name@v1.0", "org/name", "v1.0"),
        ("org/name@refs/pr/3", "org/name", "refs/pr/3"),
        ("hf.co/org/name", "org/name", "main"),
        ("https://huggingface.co/org/name/", "org/name", "main"),
        (" org/name:latest ", "org/name", "main"),
    ],
)
def test_names(text: str, name: str, revision: str) -> None:
    assert parse_repository(text) == Repository(name, revision)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "a/b/c",
        "../b",
        "a/..",
        "a/b@../x",
        "a--b/c",
        "a/b:q4",
        "a/b c",
        "/a/b",
        "a/b@",
        "a/b@.",
        "a/b@x/.",
        "a/b@/x",
        "a/b@.x",
        "a\n/b",
        "a/b\x1b",
        "a/b@x\0",
        "a/b" + "c" * 96,
    ],
)
def test_no_names(text: str) -> None:
    assert parse_repository(text) is None


def test_the_files_that_serve() -> None:
    wanted = {
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "tokenizer.model", "merges.txt", "vocab.txt", "chat_template.jinja", "modules.json",
        "model-00001-of-00002.safetensors", "model.safetensors.index.json", "qwen.tiktoken",
        "1_Pooling/config.json", "2_Dense/model.safetensors",
        "additional_chat_templates/tool.jinja",
    }  # fmt: skip
    others = {
        "README.md", ".gitattributes", "pytorch_model.bin", "model.gguf", "onnx/model.onnx",
        "picture.png", "modeling_x.py", "consolidated.safetensors", "training_args.bin",
        "original/model.safetensors", "../config.json", "a/../config.json", "trainer_state.json",
    }  # fmt: skip
    assert serving(wanted | others) == wanted


def test_old_weights_serve_where_there_are_no_others() -> None:
    assert "weights.npz" in serving(["config.json", "weights.npz"])
    assert "weights.npz" not in serving(["weights.npz", "model.safetensors"])
    assert "consolidated.safetensors" in serving(["consolidated.safetensors"])
    assert why_not_served(["config.json", "weights.npz"]) is None
    assert why_not_served(["adapter_config.json", "adapters.safetensors"]) == (
        "is an adapter, not a whole model"
    )


@pytest.mark.parametrize(
    "name",
    [
        "/config.json", "../../config.json", "1_a/../config.json", "1_a/../../x.json", ".json",
        "..\\config.json", "config.json\n", "con\0fig.json", "1_a/1_b/config.json", "1_a//x.json",
        "additional_chat_templates/../x.jinja", "./config.json", "\u202econfig.json",
        "c:config.json", "blobs/config.json", "refs/main", "1_a\n/x.json",
        ".cache/x.json", "1_a/../x.safetensors",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_not_fetched(name: str) -> None:
    assert serving([name]) == frozenset()
