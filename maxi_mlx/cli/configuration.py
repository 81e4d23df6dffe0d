"""Flags over environment over file: makes the one `Settings`, and remembers what set each.

A setting has one name: ``--max-body-size``, ``MAXI_MLX_MAX_BODY_SIZE``, ``max_body_size`` in the
file. Knows no MLX, and does not look whether the folders named exist.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

from maxi_mlx.cli import kinds, model_tables
from maxi_mlx.cli.kinds import Kind
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import (
    STRATEGIES,
    Backend,
    LogFormat,
    LogLevel,
    SchedulerSettings,
    Settings,
    Strategy,
)

PREFIX = "MAXI_MLX_"
NEAR_ENOUGH = 0.7  # for a guess at what was meant: 1 is the same word
# Variables with our prefix that are no settings.
_OTHER_VARIABLES = ("MAXI_MLX_CONFIG", "MAXI_MLX_HOME")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting: the ``Settings`` field it fills, its name for users, the values it takes.

    ``separator`` is set for lists, and parts their items in the environment.
    """

    field: str
    name: str
    kind: Kind
    separator: str | None = None
    is_secret: bool = False

    @property
    def is_path(self) -> bool:
        return self.kind.is_path

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def off_flag(self) -> str:
        """A switch's other flag."""
        return "--no-" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return _variable(self.name)


PARAMETERS = (
    Parameter("host", "host", kinds.words("a host name or an address")),
    Parameter("port", "port", kinds.whole(0, 65535)),
    Parameter("model_dirs", "model_dir", kinds.path("a folder"), separator=os.pathsep),
    Parameter("adapter_dirs", "adapter_dir", kinds.path("a folder"), separator=os.pathsep),
    Parameter("model", "model", kinds.words("a model's name")),
    Parameter("pins", "pin", kinds.words("a model's name"), separator=","),
    Parameter("keep_alive_s", "keep_alive", kinds.keep_alive()),
    Parameter("fallback_model", "fallback_model", kinds.words("a model's name")),
    Parameter("backend", "backend", kinds.one_of(get_args(Backend))),
    Parameter("strategy", "strategy", kinds.one_of(get_args(Strategy))),
    Parameter("kv_bits", "kv_bits", kinds.one_of_numbers((2, 3, 4, 5, 6, 8))),
    Parameter("max_kv_size", "max_kv_size", kinds.whole(16)),
    Parameter("cache_memory_bytes", "cache_memory", kinds.size(at_least=0)),
    Parameter("cache_disk_bytes", "cache_disk", kinds.size(at_least=0)),
    Parameter("cache_dir", "cache_dir", kinds.path("a folder")),
    Parameter("store", "store", kinds.switch()),
    Parameter("store_bytes", "store_size", kinds.size(at_least=0)),
    Parameter("store_days", "store_days", kinds.number("of days above 0", lambda days: days > 0)),
    Parameter("api_keys", "api_key", kinds.api_key(), separator=",", is_secret=True),
    Parameter("api_keys", "api_key_file", kinds.path("a file with one key a line")),
    Parameter("cors_origins", "cors", kinds.origin(), separator=","),
    Parameter("tls_cert", "tls_cert", kinds.path("a file")),
    Parameter("tls_key", "tls_key", kinds.path("a file")),
    Parameter("log_level", "log_level", kinds.one_of(get_args(LogLevel))),
    Parameter("log_format", "log_format", kinds.one_of(get_args(LogFormat))),
    Parameter("log_prompts", "log_prompts", kinds.switch()),
    Parameter(
        "drain_timeout_s",
        "drain_timeout",
        kinds.number("of seconds, 0 or more", lambda value: value >= 0),
    ),
    Parameter("max_body_bytes", "max_body_size", kinds.size()),
    Parameter("max_audio_bytes", "max_audio_size", kinds.size()),
)

_SHARE = kinds.number("between 0 and 1", lambda value: 0 < value < 1)
SCHEDULER: Mapping[str, Kind] = {
    "max_running_rows": kinds.whole(1),
    "max_waiting_requests": kinds.whole(0),
    "prefill_slice_s": kinds.number("of seconds above 0", lambda value: value > 0),
    "prefill_slice_tokens": kinds.whole(1),
    "decode_share": _SHARE,
    "memory_share": _SHARE,
    "cache_share": _SHARE,
}


@dataclass(frozen=True, slots=True)
class _Given:
    """Values as one source gives them, by the parameters' names. ``base`` is what its relative
    paths start from; ``is_typed`` is true for TOML, where "80" is no number."""

    values: Mapping[str, object]
    base: Path
    is_typed: bool
    file: Path | None = None
    is_environment: bool = False

    def place(self, parameter: Parameter) -> str:
        if self.file is not None:
            return f"file {self.file}"
        if self.is_environment:
            return f"environment {parameter.variable}"
        is_off = self.values.get(parameter.name) is False
        return f"flag {parameter.off_flag if is_off else parameter.flag}"


def load(
    flags: Mapping[str, object],
    *,
    config: Path | None,
    default_config: Path,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings; SetupError names the first wrong one and what it may be.

    ``flags`` are by parameter name; None and empty tuples are flags not given. ``config`` is the
    file asked for by flag: it has to be there, ``default_config`` need not.
    """
    environ = os.environ if environ is None else environ
    if config is None and environ.get("MAXI_MLX_CONFIG"):
        config = Path(os.path.expanduser(environ["MAXI_MLX_CONFIG"]))
    table, file = _read_file(config, default_config)
    scheduler = table.pop("scheduler", {})
    here = Path.cwd()
    given = [
        _Given({n: v for n, v in flags.items() if v not in (None, ())}, here, False),
        _Given(_variables(environ), here, False, is_environment=True),
    ]
    if file is not None:
        given.append(_Given(table, file.parent, True, file=file))
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for field in dict.fromkeys(parameter.field for parameter in PARAMETERS):
        _fill(field, given, values=values, sources=sources)
    values["scheduler"] = _scheduler(
        values.get("strategy", Settings().strategy), scheduler, file=file, sources=sources
    )
    _fill_tables(table, file, values=values, sources=sources)
    _check_together(values, sources)
    return Settings(**values, sources=sources)


def _check_together(values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Raise SetupError for values that are right alone."""
    if values.get("tls_key") and not values.get("tls_cert"):
        raise SetupError(f"{sources['tls_key']}: a key without its certificate; give --tls-cert")
    if values.get("kv_bits") and values.get("max_kv_size"):
        raise SetupError(
            f"{sources['max_kv_size']}: not together with kv_bits ({sources['kv_bits']}); mlx-lm "
            "can't quantise a window"
        )
    if values.get("log_prompts") and values.get("log_level") in ("warning", "error"):
        raise SetupError(
            f"{sources['log_prompts']}: prompts are logged at info, and the log begins at "
            f"{values['log_level']} ({sources['log_level']})"
        )


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences on variables that look like ours and are not."""
    known = {parameter.variable for parameter in PARAMETERS} | set(_OTHER_VARIABLES)
    return tuple(
        f"environment {name} is no setting{_meant(name.removeprefix(PREFIX), spell=_variable)}"
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in known
    )


def _fill(
    field: str,
    given: Sequence[_Given],
    *,
    values: dict[str, Any],
    sources: dict[str, str],
) -> None:
    """Take ``field`` from the first source that has it."""
    parameters = [parameter for parameter in PARAMETERS if parameter.field == field]
    sources[field] = "default"
    for source in given:
        present = [parameter for parameter in parameters if parameter.name in source.values]
        if not present:
            continue
        results = [_value(parameter, source) for parameter in present]
        is_list = isinstance(results[0], tuple)
        values[field] = tuple(item for part in results for item in part) if is_list else results[0]
        sources[field] = ", ".join(source.place(parameter) for parameter in present)
        return


def _fill_tables(
    table: Mapping[str, object],
    file: Path | None,
    *,
    values: dict[str, Any],
    sources: dict[str, str],
) -> None:
    """What the file alone can say, of single models and adapters."""
    for field, (name, read) in model_tables.READERS.items():
        sources[field] = "default"
        if file is not None and name in table:
            values[field] = read(table[name], file=file, read=_read_typed)
            sources[field] = f"file {file}"


def _value(parameter: Parameter, source: _Given) -> Any:
    raw = source.values[parameter.name]
    if parameter.name == "api_key_file":
        return _keys_in_file(_checked(parameter, raw, source), source.place(parameter))
    if parameter.separator is None:
        return _checked(parameter, raw, source)
    return tuple(_checked(parameter, item, source) for item in _items(parameter, raw, source))


def _items(parameter: Parameter, raw: object, source: _Given) -> Iterator[object]:
    if parameter.name == "cors" and isinstance(raw, bool):
        yield from ["*"] if raw else []
    elif source.is_environment and isinstance(raw, str):
        yield from filter(None, (part.strip() for part in raw.split(parameter.separator)))
    elif isinstance(raw, list | tuple):
        yield from raw
    else:
        yield raw


def _checked(parameter: Parameter, raw: object, source: _Given) -> Any:
    place = source.place(parameter) + (f", {parameter.name}" if source.file else "")
    value = _read(parameter.kind, raw, place, typed=source.is_typed, secret=parameter.is_secret)
    return source.base / value if isinstance(value, Path) else value


def _read_typed(kind: Kind, raw: object, place: str) -> Any:
    return _read(kind, raw, place, typed=True)


def _read(kind: Kind, raw: object, place: str, *, typed: bool, secret: bool = False) -> Any:
    try:
        return kind.check(kind.from_words(raw) if isinstance(raw, str) and not typed else raw)
    except ValueError:
        shown = "the value" if secret else json.dumps(raw, default=str, ensure_ascii=False)
        raise SetupError(f"{place}: {shown} is not {kind.allowed}") from None


def _keys_in_file(path: Path, place: str) -> tuple[str, ...]:
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{place}: can't read {path}: {_reason(error)}") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise SetupError(f"{place}: {path} has no key; write one a line")
    where = f"{place}: {path}"
    return tuple(_read(kinds.api_key(), key, where, typed=True, secret=True) for key in keys)


def _variables(environ: Mapping[str, str]) -> dict[str, object]:
    """An empty variable counts as not set, as shells and compose files leave them."""
    return {p.name: environ[p.variable] for p in PARAMETERS if environ.get(p.variable)}


def _read_file(config: Path | None, default: Path) -> tuple[dict[str, Any], Path | None]:
    if config is None and not os.path.isfile(default):
        return {}, None
    import tomllib

    file = config or default
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError(f"can't read the configuration {file}: {_reason(error)}") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise SetupError(f"file {file} is not TOML: {error}") from None
    names = {parameter.name for parameter in PARAMETERS}
    for key in table:
        if key not in names | {"scheduler", "models", "adapters"}:
            raise SetupError(f"file {file}: unknown key '{key}'{_meant(key) or _known()}")
    inner = table.get("scheduler", {})
    if not isinstance(inner, dict):
        raise SetupError(f"file {file}: scheduler is not a table; write [scheduler]")
    for key in inner:
        if key not in SCHEDULER:
            words = _meant(key) or _known()
            raise SetupError(f"file {file}: unknown key 'scheduler.{key}'{words}")
    return table, file.absolute()


def _scheduler(
    strategy: Strategy,
    table: Mapping[str, object],
    *,
    file: Path | None,
    sources: dict[str, str],
) -> SchedulerSettings:
    """The strategy's values, with those that the file sets by themselves over them."""
    values = {}
    sources["scheduler"] = f"strategy {strategy}"
    for field in fields(SchedulerSettings):
        sources[f"scheduler.{field.name}"] = f"strategy {strategy}"
        values[field.name] = getattr(STRATEGIES[strategy], field.name)
        if field.name in table:
            place = f"file {file}"
            name = f"{place}, scheduler.{field.name}"
            values[field.name] = _read(SCHEDULER[field.name], table[field.name], name, typed=True)
            sources[f"scheduler.{field.name}"] = place
    return SchedulerSettings(**values)


def file_only(name: str) -> str:
    """What to say of a name of the scheduler's where it is given by flag or environment."""
    return f"{name} is set in the file alone, under [scheduler]"


def _meant(name: str, *, spell: Callable[[str], str] = str) -> str:
    """What a name that is no setting was meant to be, "" where nothing is near.

    ``spell`` is how a setting is written where the name was found: by default as in the file.
    """
    import difflib

    wanted = name.lower().replace("-", "_").removeprefix("scheduler_")
    if wanted == "pull_default":
        return "; it is a flag alone: `maxi-mlx serve --pull-default`"
    # A key in the wrong table is as near as one misspelt.
    known = [*(parameter.name for parameter in PARAMETERS), *SCHEDULER]
    if spell is _variable:
        known += [other.removeprefix(PREFIX).lower() for other in _OTHER_VARIABLES]
    close = difflib.get_close_matches(wanted, known, n=1, cutoff=NEAR_ENOUGH)
    if not close:
        return ""
    if close[0] not in SCHEDULER:
        return f"; did you mean '{spell(close[0])}'?"
    if spell is _variable:
        return f"; {file_only(close[0])}"
    return f"; did you mean 'scheduler.{close[0]}'?"


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _known() -> str:
    names = [*(parameter.name for parameter in PARAMETERS), *(f"scheduler.{n}" for n in SCHEDULER)]
    return "; known are " + ", ".join(sorted([*names, "models", "adapters"]))


def _reason(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "it is not text"
