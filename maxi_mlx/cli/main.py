"""The ``maxi-mlx`` command: finds the subcommand's file, and turns what goes wrong into one line.

A subcommand's module is imported only when it runs, so that ``--help`` waits for nothing.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from maxi_mlx import __version__
from maxi_mlx.cli.asking.inert import inert
from maxi_mlx.core.errors import MaxiError, NoAnswer

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "maxi-mlx"
EXIT_SETUP = 2  # something about the command line or this machine; nothing was done
EXIT_NO_ANSWER = 1  # a server refused, failed, or ended in the middle
EXIT_READER_LEFT = 1
EXIT_INTERRUPTED = 130  # as shells have it for Ctrl-C

# name: (where its click command is, the line in `maxi-mlx --help`)
COMMANDS = {
    "serve": ("maxi_mlx.cli.serve:serve", "Answer OpenAI's API with the models on this machine."),
    "chat": ("maxi_mlx.cli.chat:chat", "Talk with a model at the terminal."),
    "run": ("maxi_mlx.cli.run:run", "Ask one question, and print the answer."),
    "list": ("maxi_mlx.cli.list:list_models", "Show the models found, and what can't be served."),
    "show": ("maxi_mlx.cli.show:show", "Show what is known of a model."),
    "ps": ("maxi_mlx.cli.ps:list_loaded", "Show the models that the running server has loaded."),
    "stop": ("maxi_mlx.cli.stop:stop", "Have the running server unload a model."),
    "connect": (
        "maxi_mlx.cli.connect:connect",
        "Show a client's settings for this server, or write them.",
    ),
    "pull": (
        "maxi_mlx.cli.pull:pull",
        "Fetch a model from the Hugging Face hub.",
    ),
    "rm": ("maxi_mlx.cli.rm:remove_model", "Remove a model from the disk."),
    "cache": ("maxi_mlx.cli.cache:cache", "Show, check or clear the prompts kept on disk."),
    "service": (
        "maxi_mlx.cli.service:service",
        "Have the server run in the background, from login on.",
    ),
    "completion": (
        "maxi_mlx.cli.completion:completion",
        "Print the script that has a shell complete after Tab.",
    ),
    "doctor": (
        "maxi_mlx.cli.doctor:doctor",
        "Check this machine, and say what to do about each fault.",
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click has it, but for importing every command to see what it does."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=line)
            for name, (_, line) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            known = ", ".join(COMMANDS)
            raise click.UsageError(f"no such command '{args[0]}'; there are {known}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def commands() -> None:
    """\b
    One local endpoint for the MLX models on this machine.
    Example: maxi-mlx pull smollm2 && maxi-mlx serve
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows few characters is no reason to end in the middle of an answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = commands.main(arguments, prog_name=PROGRAM, standalone_mode=False)
    except NoAnswer as error:
        _complain(error.message)
        code = EXIT_NO_ANSWER
    except MaxiError as error:
        code = _complain(error.message)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = EXIT_SETUP
    except click.ClickException as error:
        code = _complain(_usage(error))
    except (click.Abort, KeyboardInterrupt):
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python's own flush at exit must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_READER_LEFT
    leave(code if isinstance(code, int) else 0)


def leave(code: int) -> NoReturn:
    """End the process; where MLX ran in it, without Python's own shutdown.

    A thread that used MLX asks for the interpreter's lock once more as it ends, after Python counts
    it as ended. If that falls into the shutdown, the process aborts.
    """
    if "mlx.core" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _complain(message: str) -> int:
    """One line on stderr; gives the exit code for it."""
    click.echo(f"{PROGRAM}: {inert(' '.join(message.split()))}", err=True)
    return EXIT_SETUP


def _usage(error: click.ClickException) -> str:
    """click's complaint in our own style: no capital, no full stop, one guess where it is near."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f" (see {context.command_path} --help)" if context else ""
    if isinstance(error, click.NoSuchOption):
        return f"no such option '{error.option_name}'{_meant(error)}{hint}"
    text = error.format_message()
    return f"{text[:1].lower()}{text[1:].rstrip('.')}{hint}"


def _meant(error: click.NoSuchOption) -> str:
    import difflib

    from maxi_mlx.cli import configuration

    name = error.option_name.lstrip("-").replace("-", "_")
    if name in configuration.SCHEDULER:
        return f"; {configuration.file_only(name)}"
    close = difflib.get_close_matches(
        error.option_name, error.possibilities or (), n=1, cutoff=configuration.NEAR_ENOUGH
    )
    return f"; did you mean '{close[0]}'?" if close else ""
