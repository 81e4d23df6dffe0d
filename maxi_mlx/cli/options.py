"""The command line's options for settings, one spelling for all commands that have them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.roots import default_adapter_dirs, default_roots, home_models_dir
from maxi_mlx.cli import configuration
from maxi_mlx.cli.completing import complete_model, complete_words
from maxi_mlx.cli.configuration import PARAMETERS, Parameter
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import DEFAULT_HOST, DEFAULT_PORT, Settings

Command = TypeVar("Command", bound=Callable[..., Any])

# parameter: (what stands for the value in --help, None for a switch; what it does)
_HELP: dict[str, tuple[str | None, str]] = {
    "host": (
        "ADDRESS",
        f"Address to listen on ({DEFAULT_HOST}). Any address but this machine's own lets the "
        "network in: set an API key.",
    ),
    "port": ("PORT", f"Port to listen on ({DEFAULT_PORT}); 0 takes any free one."),
    "model_dir": ("FOLDER", "Look for models here as well. Can be given several times."),
    "adapter_dir": (
        "FOLDER",
        "Look for LoRA adapters here as well as in ~/.maxi-mlx/adapters. Can be given several "
        "times.",
    ),
    "model": ("NAME", "Load this model at start; it stays until another needs its memory."),
    "pin": (
        "NAME",
        "Load this model at start and never unload it. Can be given several times.",
    ),
    "keep_alive": (
        "TIME",
        "How long a model stays in memory that nobody uses: 5m, 1h, seconds, 0 for not at all, -1 "
        "until another needs its memory (30m).",
    ),
    "fallback_model": ("NAME", "Answer with this model where a request names an unknown one."),
    "backend": ("auto|metal|cuda|cpu", "What to compute on (auto: the fastest there is)."),
    "strategy": (
        "latency|balanced|throughput|memory",
        "What to favour when several requests run: short gaps between tokens, a middle way "
        "(balanced, the default), most tokens in all, or little memory.",
    ),
    "kv_bits": (
        "2|3|4|5|6|8",
        "Keep keys and values with so many bits; answers then decode one by one.",
    ),
    "max_kv_size": (
        "TOKENS",
        "Let a row's cache keep the first few and the latest TOKENS; answers then decode one by "
        "one.",
    ),
    "cache_memory": (
        "SIZE",
        "Memory for prefixes of prompts that may come again (a share of what is free); 0 for none.",
    ),
    "cache_disk": ("SIZE", "Disk for them, so that they outlive the server (10GB); 0 for none."),
    "cache_dir": ("FOLDER", "Keep stored prefixes here (~/.maxi-mlx/cache/kv)."),
    "store": (
        None,
        "Keep responses of the Responses API in a file, so that others can go on from them (on).",
    ),
    "store_size": ("SIZE", "How large that file may be (1GB); 0 keeps none."),
    "store_days": ("DAYS", "How long a response is kept that nothing went on from (30)."),
    "api_key": (
        "KEY",
        "Refuse requests without this key. Can be given several times. Other users of this machine "
        "can see it in ps; MAXI_MLX_API_KEY and --api-key-file hide it.",
    ),
    "api_key_file": ("FILE", "The same with the keys in a file, one a line."),
    "cors": (
        "[ORIGIN]",
        "Let web pages of this origin in; every page without ORIGIN. Can be given several times.",
    ),
    "tls_cert": ("FILE", "Serve https with this certificate (PEM)."),
    "tls_key": ("FILE", "The certificate's private key, where it is a file of its own."),
    "log_level": ("debug|info|warning|error", "How much to log (info)."),
    "log_format": ("text|json", "Log for people, or one JSON object a line (text)."),
    "log_prompts": (
        None,
        "Write prompts and answers into the log, where whoever reads it can read them (off).",
    ),
    "drain_timeout": ("SECONDS", "How long running answers may go on after Ctrl-C (30)."),
    "max_body_size": ("SIZE", "Refuse requests larger than this (256MB)."),
    "max_audio_size": ("SIZE", "Refuse recordings larger than this (200MB)."),
}


_CONFIG_HELP = (
    "Settings in TOML (~/.maxi-mlx/config.toml where it exists). Variables (MAXI_MLX_PORT, …) beat "
    "it, flags beat both."
)


def settings_options(
    *names: str, words: Mapping[str, str] | None = None
) -> Callable[[Command], Command]:
    """Adds the options for these parameters, or for all, and --config. ``words`` are other helps
    for some, where a command makes another use of them than `serve`."""
    chosen = [p for p in PARAMETERS if not names or p.name in names]
    words = words or {}

    def decorate(command: Command) -> Command:
        config = click.option("--config", metavar="FILE", help=words.get("config", _CONFIG_HELP))
        command = config(command)
        for parameter in reversed(chosen):
            text = words.get(parameter.name, _HELP[parameter.name][1])
            command = _option(parameter, text)(command)
        return command

    return decorate


def settings_of(flags: dict[str, Any]) -> Settings:
    """The settings, of the flags that `settings_options` gave to a command."""
    check_home()
    flags = dict(flags)
    config = flags.pop("config", None)
    return configuration.load(
        flags,
        config=Path(os.path.expanduser(config)) if config is not None else None,
        default_config=home_models_dir().parent / "config.toml",
    )


def arguments_of(flags: Mapping[str, Any]) -> list[str]:
    """The command line that gives these flags, right from whatever folder it is run in."""
    config = flags.get("config")
    words = [] if config is None else [f"--config={_absolute(config)}"]
    for parameter in PARAMETERS:
        given = flags.get(parameter.name)
        if isinstance(given, bool):
            words.append(parameter.flag if given else parameter.off_flag)
            continue
        items = given if isinstance(given, tuple) else (given,)
        for item in items:
            if item is not None:
                value = _absolute(item) if parameter.is_path else item
                words.append(f"{parameter.flag}={value}")
    return words


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def check_home() -> None:
    """Raise SetupError where something else stands in the place of the project's own folder."""
    home = home_models_dir().parent
    if os.path.lexists(home) and not os.path.isdir(home):
        source = "environment MAXI_MLX_HOME: " if os.environ.get("MAXI_MLX_HOME") else ""
        raise SetupError(
            f"{source}{home} is not a folder, and maxi-mlx keeps its models in it; set "
            "MAXI_MLX_HOME to one"
        )


def catalog_of(settings: Settings) -> Catalog:
    return Catalog(
        default_roots(settings.model_dirs),
        settings.models,
        adapter_dirs=default_adapter_dirs(settings.adapter_dirs),
        adapter_models=settings.adapter_models,
    )


def check_folders(settings: Settings) -> None:
    """Raise SetupError for a folder of models or adapters that was named and isn't there."""
    named = [("model_dirs", folder) for folder in settings.model_dirs]
    named += [("adapter_dirs", folder) for folder in settings.adapter_dirs]
    for field, folder in named:
        source = settings.sources[field]
        if not os.path.isdir(folder):  # Path.is_dir raises without rights to the folder above
            what = "is not a folder" if os.path.exists(folder) else "does not exist"
            raise SetupError(f"{source}: {folder} {what}")
        if not os.access(folder, os.R_OK | os.X_OK):
            raise SetupError(f"{source}: {folder} may not be read by this user")


def _option(parameter: Parameter, text: str) -> Callable[[Command], Command]:
    metavar = _HELP[parameter.name][0]
    more: dict[str, Any] = {}
    if parameter.name == "cors":
        more = {"is_flag": False, "flag_value": "*"}
    if metavar is None:
        return click.option(
            f"{parameter.flag}/{parameter.off_flag}", parameter.name, default=None, help=text
        )
    is_list = parameter.separator is not None
    is_model = parameter.name in ("model", "pin", "fallback_model")
    more["shell_complete"] = (
        complete_model if is_model else complete_words(metavar, is_path=parameter.is_path)
    )
    return click.option(
        parameter.flag, parameter.name, metavar=metavar, help=text, multiple=is_list, **more
    )
