"""``maxi-mlx doctor``: what this machine has for serving, and what to do about each fault."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from maxi_mlx.cli import checkup
from maxi_mlx.cli.checkup import Check
from maxi_mlx.cli.options import settings_of, settings_options
from maxi_mlx.cli.terminal import Paint
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import Settings

MARKS = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "fault": ("FAULT", "red")}


@click.command()
@settings_options("host", "port", "model_dir", "backend")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for programs.")
@click.pass_context
def doctor(context: click.Context, /, *, as_json: bool, **flags: Any) -> None:
    """Check this machine, and say what to do about each fault.

    The exit code is 1 where something keeps the server from serving.

    \b
    Example: maxi-mlx doctor --port 8080
    """
    checks = []
    paint = Paint.on(sys.stdout)
    for check in _checks(flags):
        checks.append(check)
        if not as_json:
            _print(check, paint)
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=2))
    context.exit(1 if any(check.state == "fault" for check in checks) else 0)


def _checks(flags: dict[str, Any]) -> Iterator[Check]:
    """One by one, so that the first show while the device is still being tried."""
    try:
        settings = settings_of(flags)
    except SetupError as error:
        yield checkup.refusal("configuration", error.message)
        settings = Settings()
    else:
        configuration = checkup.config_file_check(settings)
        if configuration:
            yield configuration
    yield from checkup.machine_checks(settings.backend)
    yield from checkup.model_checks(settings)
    yield checkup.disk_check()
    yield checkup.port_check(settings.host, settings.port)


def _print(check: Check, paint: Paint) -> None:
    mark, colour = MARKS[check.state]
    click.echo(f"{paint(mark.ljust(5), colour)}  {check.name}: {check.finding}")
    if check.remedy:
        click.echo(f"       → {check.remedy}")
