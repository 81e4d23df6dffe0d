"""``maxi-mlx serve``: from flags to a running server. Imports little before the port is open."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import near, printable
from maxi_mlx.cli import configuration, logs
from maxi_mlx.cli.banner import banner, exposure_warning
from maxi_mlx.cli.model_checks import check_model_settings
from maxi_mlx.cli.options import catalog_of, check_folders, settings_of, settings_options
from maxi_mlx.cli.serve_help import ServeCommand, help_all_option
from maxi_mlx.cli.terminal import Paint
from maxi_mlx.core.errors import ModelNotFound, SetupError
from maxi_mlx.core.settings import DEFAULT_HOST, Settings
from maxi_mlx.engine import device
from maxi_mlx.engine.device import DeviceInfo

if TYPE_CHECKING:
    from maxi_mlx.server.serve import Stop

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "smollm2"


@click.command(cls=ServeCommand)
@settings_options()
@click.option(
    "--pull-default",
    is_flag=True,
    help="Where no model is found, fetch a small one first (maxi-mlx pull smollm2).",
)
@help_all_option
@click.option("--for-command", is_flag=True, hidden=True)  # `run` and `chat` start it
def serve(*, pull_default: bool, for_command: bool, **flags: Any) -> None:
    """Answer OpenAI's API with the models on this machine.

    The first Ctrl-C lets running answers finish, a second one ends at once.

    \b
    Example: maxi-mlx serve --model-dir ~/models --keep-alive 1h
    """
    settings = settings_of(flags)
    if for_command:
        settings = _for_command(settings)
    logs.configure(settings.log_level, settings.log_format)
    for sentence in configuration.unknown_variables(os.environ):
        logger.warning("%s", sentence)
    if settings.log_prompts:
        logger.warning(
            "prompts and answers are written into this log (%s)", settings.sources["log_prompts"]
        )
    check_folders(settings)
    device.prepare(settings.backend)
    catalog = catalog_of(settings)
    if pull_default and all(entry.problem for entry in catalog.entries()):
        _pull(DEFAULT_MODEL)
    check_model_settings(catalog, settings)
    for field in ("model", "pins", "fallback_model"):
        _check_models(catalog, settings, field=field)
    asyncio.run(_run(settings, catalog, for_command=for_command))


def _for_command(settings: Settings) -> Settings:
    """A server for one command's time: on a free port of this machine, with no model but the one
    that the command will ask for."""
    changes: dict[str, Any] = {"host": DEFAULT_HOST, "port": 0, "tls_cert": None, "tls_key": None}
    return dataclasses.replace(settings, **changes, model=None, pins=(), store=False)


async def _run(settings: Settings, catalog: Catalog, *, for_command: bool) -> None:
    from maxi_mlx.engine.engine import Engine
    from maxi_mlx.server.serve import Stop, run

    engine = Engine(settings, catalog)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = Stop()

    async def start() -> None:
        if for_command:
            click.echo(await address)
            _stop_with_command(stop)
        else:
            await _announce(await address, settings, catalog=catalog)
        await engine.wait_ready()

    serving = asyncio.create_task(
        run(settings, engine, catalog, on_ready=address.set_result, stop=stop)
    )
    starting = asyncio.create_task(start())
    await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
    # A server whose engine can't start is no server; one that has ended has nothing to announce.
    (serving if _failure(starting) else starting).cancel()
    await asyncio.wait({serving, starting})
    failure = _failure(starting) or _failure(serving)
    if failure is not None:
        raise failure


def _stop_with_command(stop: Stop) -> None:
    """The command holds the other end of our stdin: it closes however the command ends."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        for _ in range(2):  # the second time: at once
            loop.call_soon_threadsafe(stop.ask)

    threading.Thread(target=wait, daemon=True).start()


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


async def _announce(address: str, settings: Settings, *, catalog: Catalog) -> None:
    """Say what is served and how to ask for it; looking takes threads, so that /health answers."""
    entries, info = await asyncio.gather(
        asyncio.to_thread(catalog.entries), asyncio.to_thread(_describe)
    )
    warning = _exposure_warning(settings)
    if settings.log_format == "json":
        names = [entry.id for entry in entries if entry.problem is None]
        fields = {"address": address, "backend": info.backend, "models": names}
        logger.info("serving", extra={"fields": fields})
        if warning:
            logger.warning("%s", warning)
        return
    paint = Paint.on(sys.stderr)
    text = banner(address, entries, info=info, settings=settings, paint=paint)
    if warning:
        text += paint(warning, "red", bold=True) + "\n\n"
    with suppress(OSError):  # a log on a full disk is no reason not to serve
        click.echo("\n" + text, err=True, nl=False)


def _describe() -> DeviceInfo:
    device.select()
    return device.describe()


def _exposure_warning(settings: Settings) -> str | None:
    from maxi_mlx.server.origins import is_local_name

    return exposure_warning(settings, is_loopback=is_local_name(settings.host))


def _check_models(catalog: Catalog, settings: Settings, *, field: str) -> None:
    """Raise SetupError, naming what set it, for a model that isn't there or can't be served."""
    value = getattr(settings, field)
    place = settings.sources[field]
    place += f", {field.removesuffix('s')}" if place.startswith("file ") else ""
    for name in value if isinstance(value, tuple) else filter(None, [value]):
        _check_model(catalog, name, place=place)


def _check_model(catalog: Catalog, name: str, *, place: str) -> None:
    try:
        entry = catalog.find(name)
    except ModelNotFound:
        raise SetupError(f"{place}: {_no_such_model(name, catalog)}") from None
    if entry.problem is not None:
        raise SetupError(f"{place}: {entry.id} ({entry.path}) can't be served: {entry.problem}")


def _no_such_model(name: str, catalog: Catalog) -> str:
    ids = [entry.id for entry in catalog.entries() if entry.problem is None]
    if not ids:
        return f"there is no model '{printable(name)}', nor any other; try `maxi-mlx pull smollm2`"
    meant = " or ".join(f"'{id}'" for id in near(name, ids))
    guess = f" did you mean {meant}?" if meant else ""
    return f"there is no model '{printable(name)}';{guess} `maxi-mlx list` shows what there is"


def _pull(name: str) -> None:
    """In a process of its own, as what a conversion takes of memory is then given back."""
    click.echo(f"No model on this machine yet: maxi-mlx pull {name}", err=True)
    command = [sys.executable, "-m", "maxi_mlx", "pull", name, "--for-serve"]
    result = subprocess.run(command, check=False)
    if result.returncode:
        sys.exit(result.returncode)
