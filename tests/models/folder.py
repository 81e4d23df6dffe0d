"""Writes a tiny model as the folder that a hub would hold. Random weights, from a fixed seed."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.models.corpus import CORPUS
from tests.models.families import Family, family_named
from tests.models.vocabulary import (
    add_beginning_token,
    byte_level_tokenizer,
    sentencepiece_tokenizer,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

# Sharp enough that two tokens are seldom so close that rounding decides between them.
LOGITS_SPREAD = 3.0


def build_model(
    folder: Path,
    family: str | Family,
    *,
    seed: int = 0,
    generation_config: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """Writes ``family``'s model into ``folder`` and returns it.

    ``changes`` replace entries of config.json (in text_config, where the family has one);
    ``generation_config`` adds to generation_config.json.
    """
    known = family if isinstance(family, Family) else family_named(family)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(known)
    config = _config(known, tokenizer, changes)
    write_json(folder / "config.json", config)
    write_tokenizer(
        folder,
        tokenizer,
        template=known.template,
        end=known.ends[0],
        beginning=known.beginning,
        context_length=_text_config(config)["max_position_embeddings"],
    )
    ends = [_id(tokenizer, end) for end in known.ends]
    generation = {"eos_token_id": ends if len(ends) > 1 else ends[0]}
    write_json(folder / "generation_config.json", {**generation, **(generation_config or {})})
    rare = [_id(tokenizer, token) for token in (*known.tokens, *known.tags)]
    rare += range(tokenizer.get_vocab_size(), _text_config(config)["vocab_size"])
    _write_weights(folder, config, seed=seed, rare_ids=rare)
    return folder


def write_tokenizer(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    template: str,
    end: str,
    beginning: str | None,
    context_length: int,
) -> None:
    """tokenizer.json and tokenizer_config.json, in the form that transformers reads."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": end,
        "pad_token": end,
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
    }
    if beginning is not None:
        settings["bos_token"] = beginning
    write_json(folder / "tokenizer_config.json", settings)


def _tokenizer(family: Family) -> Tokenizer:
    from tokenizers import AddedToken

    reserved = (*family.tokens, *family.tags)
    if family.tokenizer == "byte level":
        tokenizer = byte_level_tokenizer(CORPUS, special_tokens=family.tokens)
    else:
        tokenizer = sentencepiece_tokenizer(
            CORPUS,
            special_tokens=reserved,
            strips_leading_space=family.tokenizer == "llama 2",
        )
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in family.tags])
    if family.beginning is not None:
        add_beginning_token(tokenizer, family.beginning)
    return tokenizer


def _config(family: Family, tokenizer: Tokenizer, changes: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {**family.config, "dtype": "float32"}
    config["eos_token_id"] = _id(tokenizer, family.ends[0])
    if family.beginning is not None:
        config["bos_token_id"] = _id(tokenizer, family.beginning)
    if family.quantization is not None:
        config["quantization"] = config["quantization_config"] = dict(family.quantization)
    if "text_config" in config:
        config["text_config"] = {**config["text_config"], **changes}
    else:
        config.update(changes)
    return config


def _id(tokenizer: Tokenizer, token: str) -> int:
    token_id = tokenizer.token_to_id(token)
    if token_id is None:
        raise KeyError(f"the tokenizer has no token {token!r}")
    return token_id


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner: Mapping[str, Any] = config.get("text_config", config)
    return inner


def _write_weights(folder: Path, config: dict[str, Any], *, seed: int, rare_ids: list[int]) -> None:
    prepare_device()
    import mlx.core as mx
    import numpy as np
    from mlx.nn.layers.quantized import quantize
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes

    model_class, arguments_class = _get_classes(config)
    model = model_class(arguments_class.from_dict(copy.deepcopy(config)))
    parameters: dict[str, mx.array] = dict(tree_flatten(model.parameters()))
    generator = np.random.default_rng(seed)
    weights = [
        (name, mx.array(_random(name, value.shape, generator=generator, rare_ids=rare_ids)))
        for name, value in parameters.items()
        if value.ndim > 1 or name.endswith(("bias", "A_log"))
    ]
    model.load_weights(weights, strict=False)
    if (quantization := config.get("quantization")) is not None:
        quantize(model, **quantization)
    parameters = dict(tree_flatten(model.parameters()))
    path = str(folder / "model.safetensors")
    mx.save_safetensors(path, parameters, metadata={"format": "mlx"})


def _random(
    name: str, shape: tuple[int, ...], *, generator: np.random.Generator, rare_ids: list[int]
) -> NDArray[np.float32]:
    import numpy as np

    if name.endswith("A_log"):  # a recurrent state that remembers some dozen tokens
        return np.log(generator.uniform(0.02, 0.5, shape)).astype(np.float32)
    values = generator.standard_normal(shape).astype(np.float32)
    if name.endswith("bias"):
        return np.asarray(0.1 * values, dtype=np.float32)
    values /= np.float32(np.sqrt(np.prod(shape[1:])))
    if "lm_head" in name or "embed" in name:
        values *= np.float32(LOGITS_SPREAD)
        # Otherwise a greedy answer ends, or writes a tag, after some dozen tokens.
        values[rare_ids] *= np.float32(0.02)
    return values


def prepare_device() -> None:
    """The BLAS that the engine loads has to be there before mlx is first imported."""
    from maxi_mlx.engine import device

    device.prepare("auto")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
