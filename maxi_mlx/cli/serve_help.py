"""`maxi-mlx serve --help`: what most people set, on one screen; --help-all has every option, in
groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

# In as few words as a line holds.
USUAL: Mapping[str, str] = {
    "host": "Address to listen on (127.0.0.1).",
    "port": "Port to listen on (11434).",
    "model_dir": "Look for models here as well.",
    "model": "Load this model at start.",
    "keep_alive": "Unload a model that long unused (30m).",
    "strategy": "What to favour when several requests run.",
    "api_key_file": "Refuse requests without a key of this file.",
    "cors": "Let web pages of this origin in.",
    "config": "Settings in TOML (~/.maxi-mlx/config.toml).",
    "pull_default": "Where no model is found, fetch a small one first.",
}
GROUPS: Mapping[str, Sequence[str]] = {
    "Address": ("host", "port", "tls_cert", "tls_key"),
    "Models": (
        "model_dir",
        "adapter_dir",
        "model",
        "pin",
        "keep_alive",
        "fallback_model",
        "pull_default",
    ),
    "Device": ("backend", "strategy", "kv_bits", "max_kv_size"),
    "Prompt cache": ("cache_memory", "cache_disk", "cache_dir"),
    "Kept responses": ("store", "store_size", "store_days"),
    "Who may ask, and what": ("api_key", "api_key_file", "cors", "max_body_size", "max_audio_size"),
    "Log and end": ("log_level", "log_format", "log_prompts", "drain_timeout"),
    "Other": ("config", "help_all", "help"),
}


class ServeCommand(click.Command):
    """Writes the short form; `format_all` the long one."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = self._records(ctx)
        rows = [(records[name][0], text) for name, text in USUAL.items()]
        rows += [records[name] for name in ("help_all", "help")]
        with formatter.section("Options"):
            formatter.write_dl(rows)

    def all_options(self, context: click.Context) -> str:
        records = self._records(context)
        formatter = context.make_formatter()
        self.format_usage(context, formatter)
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([records[name] for name in names])
        return formatter.getvalue().rstrip("\n")

    def _records(self, context: click.Context) -> dict[str, tuple[str, str]]:
        """What stands for each option in a help, by its long name."""
        found = {each.opts[-1]: each.get_help_record(context) for each in self.get_params(context)}
        return {
            option.removeprefix("--").replace("-", "_"): record
            for option, record in found.items()
            if record is not None
        }


def help_all_option(command: Command) -> Command:
    def show(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
        assert isinstance(context.command, ServeCommand)
        if is_asked and not context.resilient_parsing:
            click.echo(context.command.all_options(context))
            context.exit()

    return click.option(
        "--help-all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show all options, in groups.",
    )(command)
