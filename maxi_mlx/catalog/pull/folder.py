"""Makes the finished MLX folder out of a GGUF. Knows what the files hold, not where they go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxi_mlx.catalog.pull import tokenizer, weights
from maxi_mlx.catalog.pull.gguf_file import LlamaFile, read_llama
from maxi_mlx.catalog.pull.progress import Progress
from maxi_mlx.catalog.pull.safetensors_file import write_safetensors
from maxi_mlx.catalog.pull.source import EmbeddedModel, Precision

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What a model's folder can't do without.
NEEDED_FILES = (
    "chat_template.jinja",
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def write_folder(
    folder: Path,
    gguf: Path,
    *,
    model: EmbeddedModel,
    precision: Precision,
    progress: Progress,
) -> None:
    """Fill the empty ``folder``. config.json comes last: without it, it is no model's folder."""
    progress.say("Reading the model's file.")  # which takes some seconds
    source = read_llama(gguf)
    specs = [spec for tensor in source.tensors for spec in weights.specs(tensor, precision)]
    progress.start(f"Converting to {precision}", len(source.tensors), unit="tensors")
    write_safetensors(
        folder / "model.safetensors", specs, arrays=_arrays(source, precision, progress)
    )
    progress.done()
    progress.say("Writing the tokenizer and the settings.")
    metadata = source.metadata
    tokenizer.build_tokenizer(metadata).save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", tokenizer.tokenizer_config(metadata))
    (folder / "chat_template.jinja").write_text(metadata["tokenizer.chat_template"])
    _write_json(folder / "generation_config.json", {**_token_ids(metadata), **model.sampling})
    (folder / "README.md").write_text(_readme(model, precision))
    _write_json(folder / "config.json", _config(source, precision))


def _arrays(
    source: LlamaFile, precision: Precision, progress: Progress
) -> Iterator[NDArray[np.generic]]:
    for tensor in source.tensors:
        yield from weights.arrays(tensor, precision)
        progress.advance(1)


def _config(source: LlamaFile, precision: Precision) -> dict[str, Any]:
    metadata = source.metadata
    num_heads = metadata["llama.attention.head_count"]
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": metadata["llama.embedding_length"],
        "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"],
        "num_attention_heads": num_heads,
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "head_dim": metadata["llama.embedding_length"] // num_heads,
        "max_position_embeddings": metadata["llama.context_length"],
        "rms_norm_eps": _shortest(metadata["llama.attention.layer_norm_rms_epsilon"]),
        "rope_theta": metadata["llama.rope.freq_base"],
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float32" if precision == "float32" else "float16",
        **_token_ids(metadata),
    }
    if precision == "4bit":
        config["quantization"] = weights.quantization(source.tensors)
    return config


def _token_ids(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
    }


def _shortest(value: float) -> float:
    """A float32 as people write it: 1e-05 for 9.999999747378752e-06."""
    import numpy as np

    return float(str(np.float32(value)))


def _readme(model: EmbeddedModel, precision: Precision) -> str:
    kept = {
        "4bit": "The 4- and 8-bit blocks of that file are kept number for number, as MLX groups.",
        "float32": "The weights are the values of that file's 4- and 8-bit blocks, as float32.",
    }[precision]
    return (
        f"---\nlicense: {model.licence.lower()}\nlibrary_name: mlx\n---\n\n"
        f"# {model.name}\n\n{model.remark}\n\n"
        f"- Model: {model.origin}\n"
        f"- Licence: {model.licence}\n"
        f"- Made by maxi-mlx from `{Path(model.gguf_member).name}` in the Python package "
        f"{model.package} {model.version} (sha256 {model.wheel_sha256}). {kept}\n"
    )


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
