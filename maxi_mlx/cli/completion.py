"""``maxi-mlx completion``: the script that has a shell ask us what may come next."""

from __future__ import annotations

from collections.abc import Mapping

import click

PROGRAM = "maxi-mlx"
VARIABLE = "_MAXI_MLX_COMPLETE"  # by which click knows that a shell asks
PLACES: Mapping[str, str] = {
    "bash": 'put into ~/.bashrc: eval "$(maxi-mlx completion bash)"',
    "zsh": 'put into ~/.zshrc, below compinit: eval "$(maxi-mlx completion zsh)"',
    "fish": "maxi-mlx completion fish > ~/.config/fish/completions/maxi-mlx.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(PLACES)))
@click.pass_context
def completion(context: click.Context, /, *, shell: str) -> None:
    """Print the script that completes commands, options and models after Tab.

    Its last line says where to put it.

    \b
    Example: maxi-mlx completion zsh
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root().command
    click.echo(kind(root, {}, PROGRAM, VARIABLE).source().strip())
    click.echo(f"# {PLACES[shell]}")
