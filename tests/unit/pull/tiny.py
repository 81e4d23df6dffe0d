"""A GGUF of the embedded model's kind, small enough for a test, and a wheel around it."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter, quantize
from numpy.typing import NDArray

from maxi_mlx.catalog.pull.source import EmbeddedModel

HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, LAYERS = 64, 96, 4, 2, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "Ġ w", "he ll", "hell o"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Half floats, and so float32, hold these exactly; half floats don't hold the last norm's.
NORM = np.linspace(0.5, 1.5, HIDDEN).astype(np.float16).astype(np.float32)
FINE_NORM = np.linspace(0.5, 1.5, HIDDEN).astype(np.float32)


@dataclass(frozen=True)
class TinyFile:
    """The file, and each quantised matrix as it was before llama.cpp's reordering."""

    path: Path
    rows: dict[str, NDArray[np.uint8]]
    kinds: dict[str, Kind]


def byte_letters() -> list[str]:
    """The letters by which byte-level BPE writes the 256 bytes."""
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def write_tiny(
    path: Path,
    *,
    architecture: str = "llama",
    splitting: str = "smollm",
    token_type: int = 1,
    extra: tuple[str, Kind] | None = None,
) -> TinyFile:
    """``extra`` adds a tensor by name and kind that the real file doesn't have."""
    random = np.random.default_rng(7)
    writer = GGUFWriter(path, architecture)
    _write_metadata(writer, splitting=splitting, token_type=token_type)
    rows: dict[str, NDArray[np.uint8]] = {}
    kinds: dict[str, Kind] = {}

    def add(name: str, path: str, shape: tuple[int, int], kind: Kind) -> None:
        values = (random.standard_normal(shape) * 0.1).astype(np.float32)
        rows[path], kinds[path] = quantize(values, kind), kind
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
        stored = interleave(rows[path], heads) if heads else rows[path]
        writer.add_tensor(name, stored, raw_dtype=kind)

    vocabulary = len(SPECIAL) + 256 + len(MERGES)
    add("token_embd.weight", "model.embed_tokens", (vocabulary, HIDDEN), Kind.Q8_0)
    head = HIDDEN // HEADS
    for i in range(LAYERS):
        layer, ours = f"blk.{i}.", f"model.layers.{i}."
        writer.add_tensor(f"{layer}attn_norm.weight", NORM)
        writer.add_tensor(f"{layer}ffn_norm.weight", NORM)
        for name, path_, shape in (
            ("attn_q", "self_attn.q_proj", (HEADS * head, HIDDEN)),
            ("attn_k", "self_attn.k_proj", (KV_HEADS * head, HIDDEN)),
            ("attn_v", "self_attn.v_proj", (KV_HEADS * head, HIDDEN)),
            ("attn_output", "self_attn.o_proj", (HIDDEN, HEADS * head)),
            ("ffn_gate", "mlp.gate_proj", (FEED_FORWARD, HIDDEN)),
            ("ffn_up", "mlp.up_proj", (FEED_FORWARD, HIDDEN)),
            ("ffn_down", "mlp.down_proj", (HIDDEN, FEED_FORWARD)),
        ):
            add(f"{layer}{name}.weight", ours + path_, shape, Kind.Q4_1)
    writer.add_tensor("output_norm.weight", FINE_NORM)
    if extra:
        name, kind = extra
        values = np.zeros((32, 32), np.float32)
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return TinyFile(path, rows, kinds)


def interleave(rows: NDArray[np.uint8], heads: int) -> NDArray[np.uint8]:
    """What llama.cpp does with the rows of q and k: (half, turn) to (turn, half), a head."""
    halves = rows.reshape(heads, 2, -1, rows.shape[-1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


def _write_metadata(writer: GGUFWriter, *, splitting: str, token_type: int) -> None:
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    letters = byte_letters()
    merged = [merge.replace(" ", "") for merge in MERGES]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list([*SPECIAL, *letters, *merged])
    writer.add_token_types([3] * len(SPECIAL) + [token_type] * (len(letters) + len(merged)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)


def tiny_model(wheel: Path) -> EmbeddedModel:
    """What pins ``wheel``."""
    data = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        member = archive.getinfo("tiny_wheel/tiny.gguf")
    return EmbeddedModel(
        name="Tiny-Instruct",
        package="tiny-wheel",
        version="1.2",
        wheel_bytes=len(data),
        wheel_sha256=hashlib.sha256(data).hexdigest(),
        gguf_member=member.filename,
        gguf_bytes=member.file_size,
        folder_bytes={"4bit": 1_000_000, "float32": 1_000_000},
        sampling={"do_sample": True, "temperature": 0.5},
        licence="Apache-2.0",
        origin="https://example.org/tiny",
        remark="A tiny model for tests.",
    )


def write_wheel(folder: Path, gguf: Path) -> Path:
    """A real wheel, one that pip would install. Stored, not packed: its size is known."""
    wheel = folder / "tiny_wheel-1.2-py3-none-any.whl"
    info = "tiny_wheel-1.2.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf, "tiny_wheel/tiny.gguf")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-wheel\nVersion: 1.2\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel
