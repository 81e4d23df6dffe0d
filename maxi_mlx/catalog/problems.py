"""Says, in a user's words, what keeps a model folder from being served. The first fault counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxi_mlx.catalog import architectures
from maxi_mlx.catalog.folders import Listing
from maxi_mlx.catalog.kinds import ENCODER_TYPES, SERVED_ENCODERS, reads_pairs
from maxi_mlx.catalog.model_config import unreadable_quantization
from maxi_mlx.catalog.model_files import BrokenFile
from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.weights import Weights, missing_files
from maxi_mlx.core.models import ModelKind

WEIGHTS_PREFIX = "model"  # mlx-lm loads model*.safetensors and no others

_NO_GGUF = "GGUF file: not served; look for an MLX or safetensors version of the model"
_KIND_NAMES: Mapping[ModelKind, str] = {
    "embedding": "an embedding model",
    "reranker": "a reranker",
    "speech": "a speech model",
}
_TOKENIZER_SUFFIXES = (".tiktoken", ".model")
_TOKENIZER_NAMES = frozenset({"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.jsonl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that was read of a folder with a sound config.json. ``tokenizer_config`` is the fault
    where that file is broken."""

    folder: Path
    listing: Listing
    num_partial: int
    config: Mapping[str, Any]
    tokenizer_config: Mapping[str, Any] | BrokenFile
    weights: Weights
    weight_names: tuple[str, ...]
    kind: ModelKind
    model_type: str | None
    architectures: tuple[str, ...]
    is_supported: bool


def problem_of(found: Findings) -> str | None:
    """None for a folder that can be served."""
    gap = _gap(found)
    if gap is not None:
        return _unfinished(gap, num_partial=found.num_partial)
    if found.kind in ("embedding", "reranker"):
        return _code_problem(found) or _vector_problem(found) or _tokenizer_problem(found)
    if found.kind == "speech":
        return _speech_problem(found)
    return _code_problem(found) or _model_problem(found) or _tokenizer_problem(found)


def problem_without_config(listing: Listing, *, num_partial: int) -> str | None:
    """None where nothing in the folder speaks of a model."""
    names = sorted(listing.files | listing.dangling)
    if "model_index.json" in listing.files:
        return "an image generation pipeline: this version serves language models only"
    if "adapter_config.json" in listing.files:
        return "an adapter, not a whole model; move it to ~/.maxi-mlx/adapters (docs/settings.md)"
    if any(name.endswith(".safetensors") for name in names):
        return _unfinished("config.json is missing beside the weights", num_partial=num_partial)
    if any(name.endswith(".gguf") for name in names):
        return _NO_GGUF
    if num_partial:
        return _unfinished("config.json and the weights are missing", num_partial=num_partial)
    return None


def _unfinished(gap: str, *, num_partial: int) -> str:
    if not num_partial:
        return gap
    files = "1 file is" if num_partial == 1 else f"{num_partial} files are"
    return f"half-downloaded: {gap}, and {files} unfinished; run the download again"


def _gap(found: Findings) -> str | None:
    """What is missing of the weights or broken in them."""
    if found.weights.problem is not None:
        return found.weights.problem
    missing = missing_files(found.folder, found.weight_names, found.weights)
    if missing:
        first = printable(missing[0])
        if len(missing) == 1:
            return f"{first} is missing"
        return f"{len(missing)} weight files are missing, the first is {first}"
    if not found.weight_names:
        return _why_no_weights(found)
    is_text = found.kind not in _KIND_NAMES
    if is_text and not any(name.startswith(WEIGHTS_PREFIX) for name in found.weight_names):
        name = printable(found.weight_names[0])
        return f"mlx-lm reads weights from model*.safetensors, not from {name}"
    return None


def _why_no_weights(found: Findings) -> str | None:
    names = found.listing.files
    gone = sorted(name for name in found.listing.dangling if name.endswith(".safetensors"))
    if gone:
        return f"{printable(gone[0])} is a link to a file that is gone"
    if any(name.endswith(".npz") for name in names):
        if found.kind == "speech":
            return None  # mlx-whisper's own form
        return "its weights are in the old .npz form; look for a safetensors version"
    if any(name.endswith(".gguf") for name in names):
        return _NO_GGUF
    if any(name.endswith((".bin", ".pt", ".pth")) for name in names):
        return "its weights are PyTorch files, not read here; look for a safetensors version"
    return "no weights: model*.safetensors is missing"


def _speech_problem(found: Findings) -> str | None:
    config = found.config
    if found.model_type == "whisper" or {"n_mels", "n_audio_state"} <= config.keys():
        return None
    what = printable(found.model_type or " ".join(found.architectures) or "an unknown type")
    return f"a speech model ({what}): of these, only Whisper models are served"


def _vector_problem(found: Findings) -> str | None:
    """What keeps an embedding model or a reranker from being computed as it was made."""
    what = _KIND_NAMES[found.kind]
    if found.model_type is None:
        return "config.json names no model_type"
    kind = f"{what} of the type {printable(found.model_type)!r}"
    if found.kind == "reranker" and not reads_pairs(found.architectures):
        return None if found.model_type == "qwen3" else f"{kind}: of language models, only Qwen3's"
    is_classifier = found.kind == "reranker"
    if found.model_type in SERVED_ENCODERS and not (
        is_classifier and found.model_type == "gemma3_text"
    ):
        return _encoder_problem(found.config)
    if is_classifier or found.model_type in ENCODER_TYPES or not found.is_supported:
        return f"{kind}, which isn't among those served here"
    if found.config.get("is_causal") is False or found.config.get("use_bidirectional_attention"):
        return f"{kind} that reads in both directions, which isn't served here"
    method = unreadable_quantization(found.config)
    return method and f"quantised by {printable(method)}, which mlx-lm can't read"


def _encoder_problem(config: Mapping[str, Any]) -> str | None:
    is_gemma = config.get("model_type") == "gemma3_text"
    for key, served in (
        ("hidden_act", "gelu"),
        ("hidden_activation", "gelu_pytorch_tanh" if is_gemma else "gelu"),
        ("position_embedding_type", "absolute"),
    ):
        value = config.get(key)
        if value is not None and value != served:
            return f"its {key} is {printable(str(value))!r}, which isn't served here"
    return None


def _code_problem(found: Findings) -> str | None:
    if found.config.get("model_file") is not None:
        return (
            f"runs Python code of its own ({printable(str(found.config['model_file']))}) when it "
            "is loaded, which needs your trust; this version never runs a model folder's code"
        )
    return None


def _model_problem(found: Findings) -> str | None:
    if found.model_type is None:
        return "config.json names no model_type"
    if not found.is_supported:
        what = "vision models' language parts" if found.kind == "vision" else "models"
        return f"model type {printable(found.model_type)!r} is not among the {what} mlx-lm loads"
    if found.kind == "unknown":
        what = printable(" ".join(found.architectures))
        return f"not a model that writes text ({what}): this version serves language models only"
    method = unreadable_quantization(found.config)
    if method is not None:
        return f"quantised by {printable(method)}, which mlx-lm can't read; look for an MLX version"
    if "[" in str(found.folder):
        return "mlx-lm takes a '[' in a path for a pattern: rename the folder"
    return None


def _tokenizer_problem(found: Findings) -> str | None:
    names = found.listing.files
    if names.isdisjoint(_TOKENIZER_NAMES) and not any(
        name.endswith(_TOKENIZER_SUFFIXES) for name in names
    ):
        gap = "no tokenizer: tokenizer.json is missing"
        return _unfinished(gap, num_partial=found.num_partial)
    if isinstance(found.tokenizer_config, BrokenFile):
        return f"tokenizer_config.json {found.tokenizer_config}"
    if _tokenizer_needs_code(found.tokenizer_config, model_type=found.model_type):
        return (
            "its tokenizer is Python code in the folder, which needs your trust; this version "
            "never runs a model folder's code"
        )
    return None


def _tokenizer_needs_code(config: Mapping[str, Any], *, model_type: str | None) -> bool:
    """Whether `auto_map` is the only way: transformers prefers a class of its own to it."""
    code = config.get("auto_map")
    if isinstance(code, dict):
        code = code.get("AutoTokenizer")
    if not code:
        return False
    names = [name for name in (config.get("tokenizer_class"), model_type) if isinstance(name, str)]
    return not any(map(architectures.has_tokenizer_class, names))
