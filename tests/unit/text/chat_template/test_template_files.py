"""Where a folder's templates and special tokens are found, and which of them wins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.text.chat_template import chat_templates, read_template_files, special_tokens


def test_files_of_a_folder(tmp_path: Path) -> None:
    config = {
        "chat_template": "from the config",
        "bos_token": {"content": "<s>", "lstrip": False},
        "eos_token": "</s>",
        "add_bos_token": True,
        "pad_token": None,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "x", "unk_token": "<u>"}')
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("rag")
    files = read_template_files(tmp_path)
    assert chat_templates(files) == {"default": "from the config", "rag": "rag"}
    assert special_tokens(files) == {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<u>"}
    (tmp_path / "chat_template.jinja").write_text("from the file")
    assert chat_templates(read_template_files(tmp_path))["default"] == "from the file"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        ({"chat_template.json": '{"chat_template": "old"}'}, {"default": "old"}),
        (
            {
                "chat_template.json": '{"chat_template": "old"}',
                "tokenizer_config.json": '{"chat_template": "new"}',
            },
            {"default": "new"},
        ),
        ({"tokenizer_config.json": '{"chat_template": {"a": "x", "b": 5}}'}, {"a": "x"}),
        ({"tokenizer_config.json": '{"chat_template": [1, {"name": "a"}]}'}, {}),
        ({"tokenizer_config.json": "[]"}, {}),
    ],
    ids=str,
)
def test_where_templates_are(files: dict[str, str], expected: dict[str, str]) -> None:
    assert chat_templates(files) == expected


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[" * 100_000], ids=["broken", "bytes", "deep"])
def test_broken_files_are_named(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_bytes(data)
    with pytest.raises(InvalidRequest, match=r"tokenizer_config\.json is not"):
        chat_templates(read_template_files(tmp_path))
