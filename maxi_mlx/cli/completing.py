"""What a shell offers after Tab where a model's name belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from maxi_mlx.core.models import ModelEntry


def complete_model(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Ids of models that write text."""
    return [
        entry.id
        for entry in _begun(context, parameter, begun)
        if entry.problem is None and entry.kind in ("language", "vision")
    ]


def complete_any_model(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Ids of all, also of those that can't be served."""
    return [entry.id for entry in _begun(context, parameter, begun)]


def _begun(context: click.Context, parameter: click.Parameter, begun: str) -> list[ModelEntry]:
    """Whatever is wrong with the settings, a shell that completes is no place to hear of it."""
    from maxi_mlx.catalog.catalog import Catalog
    from maxi_mlx.catalog.roots import default_roots
    from maxi_mlx.cli.options import settings_of
    from maxi_mlx.core.errors import MaxiError

    if parameter.nargs == -1 and context.params.get(parameter.name or ""):
        return []
    flags = {name: context.params.get(name) for name in ("model_dir", "config")}
    try:
        roots = default_roots(settings_of(flags).model_dirs)
    except MaxiError:
        return []
    return [
        entry
        for entry in Catalog(roots).entries()
        if entry.id.casefold().startswith(begun.casefold())
    ]
