"""``maxi-mlx service``: has the user's own service manager run the server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from maxi_mlx.catalog.roots import home_models_dir
from maxi_mlx.cli import configuration
from maxi_mlx.cli.banner import exposure_warning
from maxi_mlx.cli.options import arguments_of, check_folders, check_home
from maxi_mlx.cli.services.manager import Manager
from maxi_mlx.cli.services.unit import Unit
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import Settings

SERVE = ("-m", "maxi_mlx", "serve")
# Where things are; what else a shell has set is no part of a service.
PASSED_ON = ("MAXI_MLX_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")
UP_WITHIN_S = 20.0
POLL_S = 0.2
EXIT_NOT_RUNNING = 1
NOT_INSTALLED = "the service is not installed; `maxi-mlx service install` does it"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def service() -> None:
    """Have the server run in the background, from login on.

    It is a launchd agent on a Mac, a systemd user unit on Linux, both of this user alone.

    \b
    Example: maxi-mlx service install -- --port 8080
    """


@service.command(short_help="Install and start it; again, to change its options.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVE-OPTIONS]")
def install(*, options: tuple[str, ...]) -> None:
    """Install the service and start it; again, to change its options.

    What stands after -- are options of `maxi-mlx serve`. Settings in ~/.maxi-mlx/config.toml count
    as well, variables of this shell don't. Keys belong into a file: --api-key-file FILE.

    \b
    Example: maxi-mlx service install -- --port 8080 --model-dir ~/models
    """
    check_home()
    arguments, settings = _understood(options)
    manager = _manager()
    _check_port(settings, manager)
    unit = Unit(
        command=(sys.executable, *SERVE, *arguments),
        environment={
            name: _absolute(os.environ[name]) for name in PASSED_ON if os.environ.get(name)
        },
        drain_timeout_s=settings.drain_timeout_s,
    )
    manager.install(unit)
    _tell_what_is_left_out()
    _wait_until_up(settings)


@service.command()
@click.pass_context
def status(context: click.Context, /) -> None:
    """Show whether the service runs, and where it answers.

    The exit code is 1 where it does not run.

    \b
    Example: maxi-mlx service status
    """
    manager = _installed()
    state = manager.state()
    process = f", process {state.process_id}" if state.process_id is not None else ""
    click.echo(f"Unit    {manager.path}")
    click.echo(f"State   {state.words}{process}")
    if state.is_running:
        served = _served(_understood(_options_of(manager))[1])
        click.echo(f"Serves  {served or 'nothing yet; `maxi-mlx service logs` says more'}")
    context.exit(0 if state.is_running else EXIT_NOT_RUNNING)


@service.command()
@click.option("-n", "--lines", type=click.IntRange(min=1), default=100, help="How many (100).")
@click.option("-f", "--follow", is_flag=True, help="Go on with new ones until Ctrl-C.")
@click.pass_context
def logs(context: click.Context, /, *, lines: int, follow: bool) -> None:
    """Show the last lines of the service's log.

    \b
    Example: maxi-mlx service logs --follow
    """
    command = _installed().log_command(num_lines=lines, follow=follow)
    try:
        context.exit(subprocess.run(command, check=False).returncode)
    except FileNotFoundError:
        raise SetupError(f"{command[0]} is not on this machine") from None


@service.command()
def uninstall() -> None:
    """Stop the service and remove it. Models, settings and logs stay.

    \b
    Example: maxi-mlx service uninstall
    """
    _manager().uninstall()


def _absolute(folder: str) -> str:
    """A service starts in another folder than this one, and expands nothing."""
    return os.path.abspath(os.path.expandvars(os.path.expanduser(folder)))


def _manager() -> Manager:
    if sys.platform == "darwin":
        from maxi_mlx.cli.services.launchd import Launchd

        return Launchd(say=click.echo)
    if sys.platform == "linux":
        from maxi_mlx.cli.services.systemd import Systemd

        return Systemd(say=click.echo)
    raise SetupError(f"services are known on macOS and Linux, not on {sys.platform}")


def _installed() -> Manager:
    manager = _manager()
    if not manager.is_installed:
        raise SetupError(NOT_INSTALLED)
    return manager


def _options_of(manager: Manager) -> list[str]:
    command = manager.command()
    return command[1 + len(SERVE) :]


def _understood(options: Sequence[str]) -> tuple[list[str], Settings]:
    """The options, right from whatever folder, and the settings that the service will have."""
    from maxi_mlx.cli.serve import serve

    context = serve.make_context("maxi-mlx serve", list(options))
    flags: dict[str, Any] = dict(context.params)
    if flags["api_key"]:
        raise SetupError(
            "other users of this machine could read an API key in a service's command line; put it "
            "into a file, and give -- --api-key-file FILE"
        )
    pull_default = flags.pop("pull_default")
    del flags["for_command"]
    flags["config"] = flags["config"] or os.environ.get("MAXI_MLX_CONFIG") or None
    arguments = arguments_of(flags)
    config = flags.pop("config")
    settings = configuration.load(
        flags,
        config=None if config is None else Path(os.path.expanduser(config)),
        default_config=home_models_dir().parent / "config.toml",
        environ={},
    )
    check_folders(settings)
    return [*arguments, *(["--pull-default"] if pull_default else [])], settings


def _served(settings: Settings) -> str | None:
    from maxi_mlx.server.address import served_at

    return served_at(settings.host, settings.port) if settings.port else None


def _check_port(settings: Settings, manager: Manager) -> None:
    if manager.is_installed:
        return  # the one that serves there may be the service's own
    served = _served(settings)
    if served is not None:
        raise SetupError(
            f"maxi-mlx is serving at {served} already; stop it first, or choose another port: "
            "maxi-mlx service install -- --port PORT"
        )


def _tell_what_is_left_out() -> None:
    left_out = sorted(
        name
        for name, value in os.environ.items()
        if name.startswith(configuration.PREFIX)
        and value
        and name not in (*PASSED_ON, "MAXI_MLX_CONFIG")
    )
    if left_out:
        click.echo(
            f"Not passed on to the service: {', '.join(left_out)}. Give options after --, or put "
            "them into ~/.maxi-mlx/config.toml"
        )


def _wait_until_up(settings: Settings) -> None:
    from maxi_mlx.server.origins import is_local_name

    warning = exposure_warning(settings, is_loopback=is_local_name(settings.host))
    if warning:
        click.echo(warning, err=True)
    ends_at = time.monotonic() + UP_WITHIN_S
    while settings.port and time.monotonic() < ends_at:
        served = _served(settings)
        if served is not None:
            click.echo(f"Serves at {served}")
            return
        time.sleep(POLL_S)
    click.echo("Started; `maxi-mlx service status` and `maxi-mlx service logs` tell how it does")
