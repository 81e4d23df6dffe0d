"""Whether the settings of single models suit the models and files that there are, at start."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from maxi_mlx.catalog.adapter_folders import AdapterReader
from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import near, printable
from maxi_mlx.cli.model_tables import place_of
from maxi_mlx.core.errors import InvalidRequest, SetupError
from maxi_mlx.core.settings import Settings

logger = logging.getLogger(__name__)


def check_model_settings(catalog: Catalog, settings: Settings) -> None:
    """Raise SetupError for the first that can't be; warn of names that are no model's."""
    for sentence in catalog.stray_adapters():
        logger.warning("%s", sentence)
    if not settings.models:
        return
    source = settings.sources["models"]
    for misfit in catalog.misfits():
        raise SetupError(f"{place_of(source, misfit.table, misfit.key)}: {misfit.words}")
    for name, own in settings.models.items():
        if own.chat_template is not None:
            _check_template(own.chat_template, place_of(source, name, "chat_template"))
        if own.adapter is not None:
            _check_adapter(own.adapter, place_of(source, name, "adapter"))
    for name in catalog.unmatched():
        ids = [entry.id for entry in catalog.entries()]
        meant = " or ".join(f"'{id}'" for id in near(name, ids))
        guess = f"; did you mean {meant}?" if meant else ""
        words = f"there is no model of that name now{guess}"
        logger.warning("%s: %s", place_of(source, printable(name)), words)


def _check_adapter(path: Path, place: str) -> None:
    if not os.path.isdir(path):
        raise SetupError(f"{place}: {path} is no folder")
    problem = AdapterReader().read(path).problem
    if problem is not None:
        raise SetupError(f"{place}: {path} can't be used: {problem}")


def _check_template(path: Path, place: str) -> None:
    # Only now: Jinja takes a moment to import.
    from maxi_mlx.text.chat_template import JinjaTemplate

    try:
        JinjaTemplate(path.read_text(encoding="utf-8"), name=f"chat template {path}")
    except OSError as error:
        raise SetupError(f"{place}: can't read {path}: {str(error.strerror).lower()}") from None
    except UnicodeDecodeError:
        raise SetupError(f"{place}: {path} is not UTF-8 text") from None
    except InvalidRequest as error:
        raise SetupError(f"{place}: {error.message}") from None
