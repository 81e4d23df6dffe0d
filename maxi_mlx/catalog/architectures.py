"""Which model types the installed mlx-lm loads, read from its files: importing it costs seconds.

Also which tokenizer classes transformers has of its own. Knows no model folder.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import logging
import re
from collections.abc import Sequence
from pathlib import Path

logger = logging.getLogger(__name__)

# A file among mlx-lm's models that defines or imports this is a model, the others are its parts.
_MODEL_CLASS = re.compile(r"^class ModelArgs\b|^from \S+ import .*\bModelArgs\b", re.MULTILINE)


def is_supported(model_type: str, architectures: Sequence[str]) -> bool:
    """Whether mlx-lm has this model type, by its own table of other names for one."""
    folder = _package_folder("mlx_lm")
    if folder is None:
        return True  # nobody can tell here; the engine will say that mlx-lm is missing
    remapped = _table("MODEL_ARCHITECTURE_REMAPPING")
    for architecture in architectures:
        if (model_type, architecture) in remapped:
            return _is_model(folder, remapped[model_type, architecture])
    return _is_model(folder, _table("MODEL_REMAPPING").get(model_type, model_type))


def has_tokenizer_class(name: str) -> bool:
    """Whether transformers itself has a tokenizer by this class name or for this model type."""
    names = _tokenizer_names()
    return not names or bool({name, name.removesuffix("Fast"), f"{name}Fast"} & names)


@functools.cache
def _is_model(folder: Path, module: str) -> bool:
    # Looked up among the names: a model type comes from a file and must not make a path.
    if module not in _module_names(folder):
        return False
    source = (folder / "models" / f"{module}.py").read_text(encoding="utf-8")
    return _MODEL_CLASS.search(source) is not None


@functools.cache
def _module_names(folder: Path) -> frozenset[str]:
    return frozenset(path.stem for path in (folder / "models").glob("*.py"))


@functools.cache
def _table(name: str) -> dict[object, str]:
    folder = _package_folder("mlx_lm")
    source = (folder / "utils.py").read_text(encoding="utf-8") if folder else ""
    match = re.search(rf"^{name}\b[^=\n]*= (\{{.*?^\}})", source, re.MULTILINE | re.DOTALL)
    if match is None:
        logger.warning("This mlx-lm keeps %s elsewhere: some models may be misjudged", name)
        return {}
    table: dict[object, str] = ast.literal_eval(match[1])
    return table


@functools.cache
def _tokenizer_names() -> frozenset[str]:
    folder = _package_folder("transformers")
    source = folder / "models" / "auto" / "tokenization_auto.py" if folder else None
    if source is None or not source.is_file():
        return frozenset()
    return frozenset(re.findall(r'"([\w.-]+)"', source.read_text(encoding="utf-8")))


@functools.cache
def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)  # of a top-level package: finds it, imports nothing
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])
