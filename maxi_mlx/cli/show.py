"""``maxi-mlx show``: what the files of one model say of it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.model_files import BrokenFile, read_object
from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.parameters import num_parameters
from maxi_mlx.cli.asking.inert import inert
from maxi_mlx.cli.completing import complete_any_model
from maxi_mlx.cli.options import catalog_of, check_folders, settings_of, settings_options
from maxi_mlx.cli.terminal import Paint, columns, size_text
from maxi_mlx.core.models import ABILITIES, ModelEntry

LONGEST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    entry: ModelEntry
    num_parameters: int | None
    abilities: tuple[str, ...]
    template: str | None
    names: tuple[str, ...]  # by which it is found besides its id


@click.command()
@click.argument("model", shell_complete=complete_any_model)
@settings_options("model_dir", "adapter_dir")
@click.option("--template", "template_alone", is_flag=True, help="Print its chat template alone.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for programs.")
def show(*, model: str, template_alone: bool, as_json: bool, **flags: Any) -> None:
    """Show what is known of MODEL: its kind, size, abilities, names, and where it is.

    MODEL is any of its names; `maxi-mlx list` shows them. Read off its files, without a server.

    \b
    Example: maxi-mlx show Qwen3-4B-4bit --template
    """
    settings = settings_of(flags)
    check_folders(settings)
    catalog = catalog_of(settings)
    shown = _shown(catalog.find(model), catalog)
    if template_alone:
        template = shown.template or ""
        click.echo(inert(template) if sys.stdout.isatty() else template, nl=False)
    elif as_json:
        click.echo(json.dumps(described(shown), indent=2))
    else:
        paint = Paint.on(sys.stdout)
        click.echo(paint(shown.entry.id, bold=True))
        for line in columns(_rows(shown)):
            click.echo(f"  {line}")


def _shown(entry: ModelEntry, catalog: Catalog) -> Shown:
    # aiohttp comes with it, and a wrong name is to be told without.
    from maxi_mlx.server.ollama_models import shown_model

    model = shown_model(entry)
    more = [name for name in model.capabilities if name not in ("completion", "embedding")]
    return Shown(
        entry=entry,
        num_parameters=_num_parameters(entry.path),
        abilities=(*ABILITIES.get(entry.kind, ()), *more) if entry.problem is None else (),
        template=model.template,
        names=tuple(name for name in catalog.names(entry) if name != entry.id),
    )


def _num_parameters(folder: Path) -> int | None:
    """None where the files don't say."""
    try:
        config = read_object(folder / "config.json")
        return num_parameters(sorted(folder.glob("*.safetensors")), config) or None
    except BrokenFile:
        return None  # which the model's problem tells in words


def described(shown: Shown) -> dict[str, Any]:
    entry = shown.entry
    return {
        "id": entry.id,
        "org_name": entry.org_name,
        "names": list(shown.names),
        "kind": entry.kind,
        "architecture": entry.architecture,
        "model_type": entry.model_type,
        "num_parameters": shown.num_parameters,
        "quantization": entry.quantization,
        "context_length": entry.context_length,
        "weight_bytes": entry.weight_bytes,
        "abilities": list(shown.abilities),
        "template": shown.template,
        "source": entry.source,
        "path": str(entry.path),
        "problem": entry.problem,
    }


def _rows(shown: Shown) -> list[tuple[str, str]]:
    entry = shown.entry
    architecture = " / ".join(filter(None, (entry.architecture, entry.model_type)))
    context = f"{entry.context_length} tokens" if entry.context_length else None
    template = f"{len(shown.template)} characters" if shown.template else None
    found = {
        "problem": entry.problem and f"can't be served: {entry.problem}",
        "kind": entry.kind,
        "architecture": architecture,
        "parameters": count_text(shown.num_parameters) if shown.num_parameters else None,
        "quantization": entry.quantization or "none",
        "context": context,
        "size": size_text(entry.weight_bytes),
        "abilities": ", ".join(shown.abilities),
        "chat template": template,
        "also called": ", ".join(shown.names),
        "path": printable(str(entry.path), max_length=LONGEST),
    }
    return [(name, value) for name, value in found.items() if value]


def count_text(number: int) -> str:
    """As model names have it: 135M, 4.0B."""
    if number < 999_500:
        return f"{number:,}"
    if number < 999_500_000:
        return f"{number / 1e6:.0f}M"
    return f"{number / 1e9:.1f}B" if number < 99.95e9 else f"{number / 1e9:.0f}B"
