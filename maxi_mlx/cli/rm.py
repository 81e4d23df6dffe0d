"""``maxi-mlx rm``: removes a model from the disk, and first from the running server's memory."""

from __future__ import annotations

from typing import Any

import click

from maxi_mlx.catalog.names import printable, without_latest
from maxi_mlx.catalog.removal import Removal, planned_removal, remove
from maxi_mlx.cli.completing import complete_any_model
from maxi_mlx.cli.options import catalog_of, check_folders, settings_of, settings_options
from maxi_mlx.cli.running_server import OPTION_WORDS, find_running_server, loaded_models
from maxi_mlx.cli.terminal import ask, size_text
from maxi_mlx.core.settings import Settings

LONGEST = 4096


@click.command("rm")
@click.argument("model", shell_complete=complete_any_model)
@click.option("--yes", is_flag=True, help="Don't ask.")
@settings_options("model_dir", "port", "api_key", words=OPTION_WORDS)
def remove_model(*, model: str, yes: bool, **flags: Any) -> None:
    """Remove MODEL from the disk: its folder, or all that the Hugging Face hub cache has of it.

    MODEL is a name that `maxi-mlx list` shows. A running server unloads it first; while that writes
    answers with it, nothing is removed.

    \b
    Example: maxi-mlx rm mlx-community/Qwen3-4B-4bit
    """
    settings = settings_of(flags)
    check_folders(settings)
    catalog = catalog_of(settings)
    if catalog.copies.remove(without_latest(model)):
        click.echo(f"{printable(model)} was a second name, and is gone; its model stays")
        return
    removal = planned_removal(model, catalog)
    if not yes:
        ask(f"Remove {_words(removal)}?", unasked="say --yes to remove the model")
    if not _removed_by_server(removal, settings):
        remove(removal, catalog)
    click.echo(f"Removed {_words(removal)}")


def _words(removal: Removal) -> str:
    id, path = printable(removal.entry.id), printable(str(removal.path), max_length=LONGEST)
    many = f", {removal.num_revisions} revisions" if (removal.num_revisions or 0) > 1 else ""
    return f"{id} ({size_text(removal.num_bytes)}{many}) from {path}"


def _removed_by_server(removal: Removal, settings: Settings) -> bool:
    """Whether a server had it in memory: that knows best whether it is in use, and removes it.
    Raises SetupError where it is."""
    server = find_running_server(settings)
    if server is None:
        return False
    path = str(removal.entry.path)
    if path not in {model["path"] for model in loaded_models(server)}:
        return False
    # By its path: an id may be another's second name there.
    server.send("DELETE", "/api/delete", {"model": path})
    return True
