"""``maxi-mlx list``: what models were found, and why some of them can't be served."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.roots import Root, default_roots
from maxi_mlx.cli.options import check_folders, settings_of, settings_options
from maxi_mlx.cli.terminal import Paint, columns, size_text
from maxi_mlx.core.models import ModelEntry

HEADS = ("ID", "KIND", "SIZE", "QUANTISATION", "CONTEXT", "WHERE")


@click.command("list")
@settings_options("model_dir")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for programs.")
def list_models(*, as_json: bool, **flags: Any) -> None:
    """Show the models found, and what can't be served and why.

    Looks in --model-dir, ~/.maxi-mlx/models, the Hugging Face hub cache and LM Studio's folder.
    """
    settings = settings_of(flags)
    check_folders(settings)
    roots = default_roots(settings.model_dirs)
    entries = Catalog(roots).entries()
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
        "source": entry.source,
        "path": str(entry.path),
        "problem": entry.problem,
    }


def table(entries: Sequence[ModelEntry], roots: Sequence[Root], *, paint: Paint) -> list[str]:
    servable = [entry for entry in entries if entry.problem is None]
    broken = [entry for entry in entries if entry.problem is not None]
    lines = []
    if servable:
        heads, *rows = columns([HEADS, *map(_row, servable)])
        lines += [paint(heads, bold=True), *rows]
    else:
        lines += ["No model that can be served. Looked in:"]
        lines += [f"  {root.path} ({root.source})" for root in roots]
        lines += ["`maxi-mlx pull smollm2` fetches a small one to begin with."]
    if broken:
        rows = columns([(entry.id, entry.source, entry.problem or "") for entry in broken])
        lines += ["", paint("Can't be served:", bold=True), *rows]
    return lines


def _row(entry: ModelEntry) -> tuple[str, ...]:
    return (
        entry.id,
        entry.kind,
        size_text(entry.weight_bytes),
        entry.quantization or "none",
        str(entry.context_length or "unknown"),
        entry.source,
    )
