"""Which files of a repository a model is served from. Names alone decide; nothing is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# At the top, and in the folders that sentence-transformers numbers: 1_Pooling, 2_Dense.
_SETTINGS = re.compile(r"(?:\d+_\w+/)?[\w.-]+\.json", re.ASCII)
_WEIGHTS = re.compile(r"(?:\d+_\w+/)?[\w.-]+\.safetensors", re.ASCII)
_TEXTS = re.compile(
    r"[\w.-]+\.(?:jinja|jsonl|tiktoken)|(?:[\w-]+\.)?tokenizer\.model|[\w-]*\.?model\.v\d+"
    r"|(?:vocab|merges)\.txt|(?:vocab|bpe|spiece|sentencepiece[\w.-]*)\.model"
    r"|additional_chat_templates/[\w.-]+\.jinja",
    re.ASCII,
)
_OLD_WEIGHTS = "weights.npz"  # of Whisper models
# Mistral's own form of weights that lie beside them as model-*.safetensors.
_TWICE = re.compile(r"consolidated[\w.-]*\.safetensors")
# What trainers leave behind.
_NOT_SERVING = re.compile(r"trainer_state\.json|training_args\.json|optimizer[\w.-]*|README[\w.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file of a repository. ``digest`` is the sha256 of a large file, of others git's own sha1;
    the cache names the file's content by it."""

    path: str
    num_bytes: int
    digest: str

    @property
    def is_large(self) -> bool:
        return len(self.digest) == 64

    @property
    def has_sound_digest(self) -> bool:
        return bool((_SHA256 if self.is_large else _SHA1).fullmatch(self.digest))


def serving(paths: Iterable[str]) -> frozenset[str]:
    """Those that a model is served from."""
    there = [path for path in paths if not path.startswith(".")]
    weights = {path for path in there if _WEIGHTS.fullmatch(path)}
    if any(path.startswith("model") for path in weights):
        weights = {path for path in weights if not _TWICE.fullmatch(path)}
    if not weights:
        weights = {path for path in there if path == _OLD_WEIGHTS}
    others = {
        path
        for path in there
        if (_SETTINGS.fullmatch(path) or _TEXTS.fullmatch(path)) and not _NOT_SERVING.match(path)
    }
    return frozenset(weights | others)


def why_not_served(paths: Sequence[str]) -> str | None:
    """What keeps a repository with these files from being served, in words that follow its name;
    None where nothing does that names can tell."""
    chosen = serving(paths)
    has_weights = any(path.endswith((".safetensors", ".npz")) for path in chosen)
    if "adapter_config.json" in paths and "config.json" not in paths:
        return "is an adapter, not a whole model"
    if "model_index.json" in paths:
        return "is an image generation pipeline, which isn't served here"
    if "config.json" in paths and has_weights:
        return None
    if any(path.endswith(".gguf") for path in paths):
        return "holds GGUF files, which MLX does not read: look for an MLX version of it"
    if has_weights:
        return "has no config.json, so that nobody knows what its weights are"
    if any(path.endswith((".bin", ".pt", ".pth")) for path in paths):
        return "holds PyTorch files, which MLX does not read: look for an MLX version of it"
    return "holds no model: there are no safetensors files in it"
