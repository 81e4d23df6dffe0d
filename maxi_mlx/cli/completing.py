"""What a shell offers after Tab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from maxi_mlx.core.models import ModelEntry

Complete = Callable[[click.Context, click.Parameter, str], "list[str] | list[CompletionItem]"]


def complete_writer(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Ids of models that write text; for the first of an argument's words alone."""
    if parameter.nargs == -1 and context.params.get(parameter.name or ""):
        return []
    return [
        entry.id
        for entry in _begun(context, begun)
        if entry.problem is None and entry.kind in ("language", "vision")
    ]


def complete_model(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Ids of models of whatever kind that can be served."""
    return [entry.id for entry in _begun(context, begun) if entry.problem is None]


def complete_any_model(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Ids of all, also of those that can't be served."""
    return [entry.id for entry in _begun(context, begun)]


def complete_words(metavar: str, *, is_path: bool) -> Complete | None:
    """By what stands for a value in --help: ``FOLDER``, ``text|json``; None for anything else."""
    from click.shell_completion import CompletionItem

    if is_path:
        kind = "dir" if metavar == "FOLDER" else "file"
        return lambda _context, _parameter, begun: [CompletionItem(begun, type=kind)]
    if "|" not in metavar:
        return None
    words = metavar.split("|")
    return lambda _context, _parameter, begun: [word for word in words if word.startswith(begun)]


def _begun(context: click.Context, begun: str) -> Sequence[ModelEntry]:
    """Whatever is wrong with the settings, a shell that completes is no place to hear of it."""
    from maxi_mlx.catalog.catalog import Catalog
    from maxi_mlx.catalog.roots import default_roots
    from maxi_mlx.cli.options import settings_of
    from maxi_mlx.core.errors import MaxiError

    flags: dict[str, Any] = {name: context.params.get(name) for name in ("model_dir", "config")}
    try:
        roots = default_roots(settings_of(flags).model_dirs)
    except MaxiError:
        return []
    return [
        entry
        for entry in Catalog(roots).entries()
        if entry.id.casefold().startswith(begun.casefold())
    ]
