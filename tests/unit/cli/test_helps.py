"""Every command's --help is one screen, and shows an example that the command takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from maxi_mlx.cli.main import PROGRAM, commands
from maxi_mlx.cli.serve import serve
from maxi_mlx.cli.serve_help import GROUPS, USUAL
from tests.unit.cli.test_pages import parsed

LINES, COLUMNS = 24, 80


def all_commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from all_commands(
                inner, click.Context(inner, info_name=name, parent=context, max_content_width=80)
            )


ROOT = click.Context(commands, info_name=PROGRAM, max_content_width=COLUMNS, terminal_width=COLUMNS)
ALL = list(all_commands(commands, ROOT))
IDS = [context.command_path for _, context in ALL]


@pytest.mark.parametrize(("command", "context"), ALL, ids=IDS)
def test_one_screen_with_an_example(command: click.Command, context: click.Context) -> None:
    lines = command.get_help(context).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    example = re.search(r"Example: (.+)$", command.get_help(context), re.MULTILINE)
    assert example is not None
    for part in re.split(r" && | \| ", example[1]):
        if part.startswith(PROGRAM):
            parsed(part)


def test_serve_has_every_option_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    options = {p.name for p in serve.params if isinstance(p, click.Option) and not p.hidden}
    assert sorted(grouped) == sorted({*options, "help"})
    assert set(USUAL) <= options


def test_serve_shows_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        serve.main(["--help-all"], prog_name="maxi-mlx serve")
    shown = capsys.readouterr().out
    for option in serve.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.opts[0] in shown
    assert "\nPrompt cache:\n" in shown
