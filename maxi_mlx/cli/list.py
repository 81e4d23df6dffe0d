"""``maxi-mlx list``: what models were found, and why some of them can't be served."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.roots import Root, default_roots
from maxi_mlx.cli.options import catalog_of, check_folders, settings_of, settings_options
from maxi_mlx.cli.terminal import Paint, columns, size_text
from maxi_mlx.core.models import ModelEntry

HEADS = ("ID", "ORG", "KIND", "SIZE", "QUANTIZATION", "CONTEXT", "WHERE")


@click.command("list")
@settings_options("model_dir", "adapter_dir")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for programs.")
def list_models(*, as_json: bool, **flags: Any) -> None:
    """Show the models found, and what can't be served and why.

    Looks in --model-dir, ~/.maxi-mlx/models, the Hugging Face hub cache and LM Studio's folder.

    \b
    Example: maxi-mlx list --model-dir ~/models
    """
    settings = settings_of(flags)
    check_folders(settings)
    roots = default_roots(settings.model_dirs)
    entries = catalog_of(settings).entries()
    if as_json:
        click.echo(json.dumps([described(entry) for entry in entries], indent=2))
        return
    for line in table(entries, roots, paint=Paint.on(sys.stdout)):
        click.echo(line)


def described(entry: ModelEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "org_name": entry.org_name,
        "kind": entry.kind,
        "weight_bytes": entry.weight_bytes,
        "quantization": entry.quantization,
        "context_length": entry.context_length,
        "aliases": list(entry.settings.aliases),
        "source": entry.source,
        "path": str(entry.path),
        "problem": entry.problem,
    }


def table(entries: Sequence[ModelEntry], roots: Sequence[Root], *, paint: Paint) -> list[str]:
    servable = [entry for entry in entries if entry.problem is None]
    broken = [entry for entry in entries if entry.problem is not None]
    lines = []
    if servable:
        heads, *rows = columns([HEADS, *(_row(entry, roots) for entry in servable)])
        lines += [paint(heads, bold=True), *rows]
    else:
        lines += ["No model that can be served. Looked in:"]
        lines += [f"  {_short(root.path)}" for root in roots]
        lines += ["`maxi-mlx pull smollm2` fetches a small one to begin with."]
    if broken:
        cells = [(entry.id, _where(entry, roots), entry.problem or "") for entry in broken]
        lines += ["", paint("Can't be served:", bold=True), *columns(cells)]
    return lines


def _row(entry: ModelEntry, roots: Sequence[Root]) -> tuple[str, ...]:
    return (
        entry.id,
        (entry.org_name or "").partition("/")[0],
        entry.kind,
        size_text(entry.weight_bytes),
        entry.quantization or "none",
        str(entry.context_length or "unknown"),
        _where(entry, roots),
    )


def _where(entry: ModelEntry, roots: Sequence[Root]) -> str:
    """The folder that was looked in, as all kinds of them have one."""
    for root in roots:
        if printable(root.source) == entry.source and entry.path.is_relative_to(root.path):
            return _short(root.path)
    return entry.source


def _short(path: Path) -> str:
    """``~`` for the home folder, as people write it."""
    home = Path.home()
    text = str(Path("~", path.relative_to(home))) if path.is_relative_to(home) else str(path)
    return printable(text)
