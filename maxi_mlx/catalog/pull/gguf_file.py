"""Reads a llama-type GGUF: its metadata, and its tensors under the names MLX knows them by.

Only what the embedded model has; anything else is refused rather than guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxi_mlx.core.errors import SetupError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens",
    "output_norm.weight": "model.norm",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
KINDS = ("F32", "Q4_1", "Q8_0")


@dataclass(frozen=True, slots=True, eq=False)
class SourceTensor:
    """One tensor. ``path`` is MLX's name without ``.weight``, ``shape`` in MLX's order.

    ``rows`` is the file's memory: float32 for F32, else the bytes of each row's blocks.
    ``num_heads`` is set where the rows of each head are interleaved.
    """

    path: str
    kind: str
    shape: tuple[int, ...]
    rows: NDArray[np.generic]
    num_heads: int | None

    def ordered_rows(self) -> NDArray[np.generic]:
        """The rows as MLX wants them."""
        if self.num_heads is None:
            return self.rows
        return self.rows[rotary_row_order(self.rows.shape[0], self.num_heads)]


@dataclass(frozen=True, slots=True, eq=False)
class LlamaFile:
    metadata: Mapping[str, Any]
    tensors: tuple[SourceTensor, ...]


def rotary_row_order(num_rows: int, num_heads: int) -> NDArray[np.intp]:
    """Which row of a GGUF's q or k projection is row i of MLX's.

    GGUF turns rows 2j and 2j+1 of a head together; MLX rows j and j + half.
    """
    import numpy as np

    rows = np.arange(num_rows).reshape(num_heads, -1, 2)
    return rows.swapaxes(1, 2).reshape(num_rows)


def read_llama(path: Path) -> LlamaFile:
    from gguf import GGUFReader

    reader = GGUFReader(path)
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise SetupError(f"{path.name} is of the kind {architecture!r}; only llama is known here.")
    heads = {
        "attn_q": metadata["llama.attention.head_count"],
        "attn_k": metadata["llama.attention.head_count_kv"],
    }
    return LlamaFile(metadata, tuple(_tensor(tensor, heads) for tensor in reader.tensors))


def _tensor(tensor: Any, heads: Mapping[str, int]) -> SourceTensor:
    kind = tensor.tensor_type.name
    if kind not in KINDS:
        raise SetupError(
            f"The tensor {tensor.name} is stored as {kind}; only {', '.join(KINDS)} are known here."
        )
    path, role = _mlx_path(tensor.name)
    return SourceTensor(
        path=path,
        kind=kind,
        shape=tuple(int(size) for size in reversed(tensor.shape)),
        rows=tensor.data,
        num_heads=heads.get(role),
    )


def _mlx_path(name: str) -> tuple[str, str]:
    """MLX's path and the tensor's role in its layer."""
    if name in TOP_NAMES:
        return TOP_NAMES[name], name
    found = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if not found or found[2] not in LAYER_NAMES:
        raise SetupError(f"The tensor {name} has no place in the models known here.")
    return f"model.layers.{found[1]}.{LAYER_NAMES[found[2]]}", found[2]
