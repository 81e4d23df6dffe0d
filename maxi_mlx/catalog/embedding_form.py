"""Reads how an embedding model makes vectors of texts, from the files sentence-transformers writes.

    modules.json ─► Transformer ─► Pooling (1_Pooling/config.json) ─► Dense, Normalize
    sentence_bert_config.json: the longest text    config_sentence_transformers.json: prompts

What can't be followed to the letter is a fault of the folder, never left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from maxi_mlx.catalog.embedding_families import Family, family_of
from maxi_mlx.catalog.folders import Listing
from maxi_mlx.catalog.kinds import ENCODER_TYPES, SERVED_ENCODERS, model_type_of
from maxi_mlx.catalog.model_files import BrokenFile, read_list, read_object
from maxi_mlx.catalog.names import printable
from maxi_mlx.core.models import EmbeddingForm, Pooling

MODULES = "modules.json"
SENTENCE_CONFIG = "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
POOLING_FOLDER = "1_Pooling"
NORMALIZE = "normalize"

_POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
# The older form, in the order in which sentence-transformers joins them.
_OLD_KEYS: Mapping[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def form_files(listing: Listing) -> list[str]:
    """What the form depends on, as far as it is there."""
    files = [name for name in (MODULES, SENTENCE_CONFIG, PROMPTS) if name in listing.files]
    if files or POOLING_FOLDER in listing.folders:
        folders = [name for name in listing.folders if name[:1].isdigit()]
        files += [f"{name}/config.json" for name in folders]
    return files


def read_form(
    folder: Path, listing: Listing, config: Mapping[str, Any], *, name: str
) -> EmbeddingForm:
    """Raises BrokenFile, whose message begins with the file's name."""
    model_type = model_type_of(config)
    is_encoder = model_type in ENCODER_TYPES or model_type in SERVED_ENCODERS
    family = family_of(name, model_type, is_encoder=is_encoder)
    sentence = _optional(folder, SENTENCE_CONFIG, listing)
    settings = _optional(folder, PROMPTS, listing)
    if MODULES in listing.files:
        pooling_folder, steps = _modules(folder, listing)
    else:
        pooling_folder = POOLING_FOLDER if POOLING_FOLDER in listing.folders else None
        steps = (NORMALIZE,)
    pooling: tuple[Pooling, ...] = (family.pooling,)
    source, pools_prompt = f"default of {printable(family.name)}", True
    if pooling_folder is not None:
        source = f"{pooling_folder}/config.json"
        found = _read(folder, source)
        pooling = _pooling(found, source)
        pools_prompt = found.get("include_prompt") is not False
    dimensions, least = _dimensions(config, family)
    prompts = _prompts(settings) or tuple(family.prompts.items())
    default = settings.get("default_prompt_name")
    return EmbeddingForm(
        pooling=pooling,
        source=source,
        steps=steps,
        pools_prompt=pools_prompt,
        max_tokens=_count(sentence.get("max_seq_length")),
        lowers_case=sentence.get("do_lower_case") is True,
        prompts=prompts,
        default_prompt=default if default in dict(prompts) else None,
        dimensions=dimensions,
        least_dimension=least,
    )


def most_tokens(config: Mapping[str, Any], context_length: int | None) -> int | None:
    """What an encoder reads at most: RoBERTa's positions begin behind its padding token's."""
    model_type = model_type_of(config) or ""
    if context_length is None or not model_type.replace("_", "-").endswith(
        ("roberta", "camembert")
    ):
        return context_length
    padding = config.get("pad_token_id")
    return context_length - (padding if isinstance(padding, int) else 1) - 1


def _modules(folder: Path, listing: Listing) -> tuple[str | None, tuple[str, ...]]:
    """The pooling's folder, and what comes after it."""
    pooling: str | None = None
    steps: list[str] = []
    for module in _module_list(folder):
        kind = str(module.get("type", "")).rpartition(".")[2]
        place = str(module.get("path", ""))
        if kind == "Transformer":
            if place not in ("", "."):
                raise BrokenFile(
                    f"{MODULES} has the model in the folder {printable(place)}; only one beside "
                    "that file is read"
                )
        elif kind == "Normalize":
            steps.append(NORMALIZE)
        elif kind in ("Pooling", "Dense"):
            if place not in listing.folders:
                raise BrokenFile(f"{MODULES} names the folder {printable(place)}, which is missing")
            if kind == "Dense":
                steps.append(_dense(folder, place))
            elif pooling is None and not steps:
                pooling = place
            else:
                raise BrokenFile(f"{MODULES} pools twice, or after other steps")
        else:
            raise BrokenFile(f"{MODULES} has a step {printable(kind)!r}, which isn't served here")
    return pooling, tuple(steps)


def _module_list(folder: Path) -> list[dict[str, Any]]:
    try:
        modules = read_list(folder / MODULES)
    except BrokenFile as error:
        raise BrokenFile(f"{MODULES} {error}") from error
    if not modules or not all(isinstance(module, dict) for module in modules):
        raise BrokenFile(f"{MODULES} does not hold a list of modules")
    return sorted(modules, key=lambda module: _count(module.get("idx")) or 0)


def _dense(folder: Path, place: str) -> str:
    if not (folder / place / "model.safetensors").is_file():
        raise BrokenFile(f"{place}/model.safetensors is missing: a layer of the model")
    return place


def _pooling(config: Mapping[str, Any], path: str) -> tuple[Pooling, ...]:
    mode = config.get("pooling_mode")
    if mode is None:
        named = tuple(pooling for key, pooling in _OLD_KEYS.items() if config.get(key) is True)
        return named or ("mean",)
    modes = mode if isinstance(mode, list) else [mode]
    known = tuple(pooling for each in modes for pooling in _POOLINGS if pooling == each)
    if not known or len(known) != len(modes):
        raise BrokenFile(f"{path} has the pooling {printable(str(mode))}, which isn't known here")
    return known


def _prompts(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    prompts = settings.get("prompts")
    if not isinstance(prompts, dict):
        return ()
    return tuple((name, text) for name, text in prompts.items() if isinstance(text, str))


def _dimensions(config: Mapping[str, Any], family: Family) -> tuple[tuple[int, ...], int | None]:
    """The lengths a vector may be cut to: what config.json says, else the family's makers."""
    listed = config.get("matryoshka_dimensions")
    if isinstance(listed, list):
        return tuple(sorted(size for size in map(_count, listed) if size is not None)), None
    if config.get("is_matryoshka") is True:
        return (), 1
    return family.dimensions, family.least_dimension


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 32
    return value if is_count else None


def _optional(folder: Path, name: str, listing: Listing) -> dict[str, Any]:
    return _read(folder, name) if name in listing.files else {}


def _read(folder: Path, name: str) -> dict[str, Any]:
    try:
        return read_object(folder / name)
    except BrokenFile as error:
        raise BrokenFile(f"{name} {error}") from error
