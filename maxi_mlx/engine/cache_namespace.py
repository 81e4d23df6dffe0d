"""Names all that a KV cache depends on besides the tokens, so that the prefix cache never mixes two
models, two versions of one, or two kinds of cache. Reads files; no MLX."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from maxi_mlx.core.models import ModelEntry

# Raised when what is kept changes its meaning.
_FORMAT = 1
_HEADER_BYTES = 1 << 16


def cache_namespace(entry: ModelEntry, *, kv_bits: int | None, max_kv_size: int | None) -> str:
    """Readable, for whoever lists the cache: the model's id, its weights, the form of its caches.

    Weights are told apart by their files' names, sizes, times and headers: reading gigabytes at
    every start would take longer than the prompts that it saves.
    """
    hashed = hashlib.blake2b(digest_size=12)
    folders = [entry.path] if entry.adapter is None else [entry.path, entry.adapter.path]
    for path in (path for folder in folders for path in sorted(folder.iterdir())):
        if path.suffix == ".safetensors":
            stat = path.stat()
            hashed.update(f"{path.name}/{stat.st_size}/{stat.st_mtime_ns}/".encode())
            hashed.update(_beginning(path))
        elif path.name in ("config.json", "adapter_config.json"):
            hashed.update(path.read_bytes())
    form = "plain"
    if kv_bits is not None:
        form = f"{kv_bits} bits"
    elif max_kv_size is not None:
        form = f"window of {max_kv_size}"
    library = metadata.version("mlx-lm")
    return f"{entry.id} | {hashed.hexdigest()} | {form} | mlx-lm {library}, format {_FORMAT}"


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER_BYTES)
