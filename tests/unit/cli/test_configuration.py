"""Flags beat the environment, the environment beats the file, and each wrong value says so."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.cli import configuration
from maxi_mlx.cli.configuration import PARAMETERS, SCHEDULER
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import STRATEGIES, SchedulerSettings, Settings


def load(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    default: Path = Path("/no/such/config.toml"),
) -> Settings:
    return configuration.load(
        flags or {}, config=file, default_config=default, environ=environ or {}
    )


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


# One row a parameter: as a flag, in the environment, in the file; each with what becomes of it.
SOURCES: list[tuple[str, tuple[object, Any], tuple[str, Any], tuple[str, Any]]] = [
    ("host", ("::1", "::1"), ("0.0.0.0", "0.0.0.0"), ('"a.local"', "a.local")),
    ("port", ("1", 1), ("2", 2), ("3", 3)),
    ("model", ("a", "a"), ("b", "b"), ('"c"', "c")),
    ("pin", (("a", "b"), ("a", "b")), ("c, d", ("c", "d")), ('["e"]', ("e",))),
    ("keep_alive", ("5m", 300.0), ("-1", math.inf), ("10", 10.0)),
    ("fallback_model", ("a", "a"), ("b", "b"), ('"c"', "c")),
    ("backend", ("cpu", "cpu"), ("metal", "metal"), ('"cuda"', "cuda")),
    ("kv_bits", ("8", 8), ("4", 4), ("2", 2)),
    ("max_kv_size", ("16", 16), ("4096", 4096), ("512", 512)),
    ("cache_memory", ("8GB", 8 * 1024**3), ("0", 0), ('"1gb"', 1024**3)),
    ("cache_disk", ("20GB", 20 * 1024**3), ("0", 0), ('"1gb"', 1024**3)),
    ("cache_dir", ("/a", Path("/a")), ("/b", Path("/b")), ('"/c"', Path("/c"))),
    ("store", (True, True), ("false", False), ("false", False)),
    ("store_size", ("2GB", 2 * 1024**3), ("0", 0), ('"1mb"', 1024**2)),
    ("store_days", ("1", 1.0), ("0.5", 0.5), ("7", 7.0)),
    ("strategy", ("latency", "latency"), ("memory", "memory"), ('"throughput"', "throughput")),
    ("api_key", (("k1", "k2"), ("k1", "k2")), ("k3, k4", ("k3", "k4")), ('["k5"]', ("k5",))),
    (
        "model_dir",
        (("/a", "/b"), (Path("/a"), Path("/b"))),
        (os.pathsep.join(["/c", "/d"]), (Path("/c"), Path("/d"))),
        ('["/e", "/f"]', (Path("/e"), Path("/f"))),
    ),
    (
        "adapter_dir",
        (("/a", "/b"), (Path("/a"), Path("/b"))),
        (os.pathsep.join(["/c", "/d"]), (Path("/c"), Path("/d"))),
        ('["/e", "/f"]', (Path("/e"), Path("/f"))),
    ),
    ("cors", (("*",), ("*",)), ("http://b,http://c", ("http://b", "http://c")), ("true", ("*",))),
    ("tls_cert", ("/a", Path("/a")), ("/b", Path("/b")), ('"/c"', Path("/c"))),
    ("log_level", ("debug", "debug"), ("error", "error"), ('"warning"', "warning")),
    ("log_format", ("json", "json"), ("text", "text"), ('"json"', "json")),
    ("log_prompts", (True, True), ("1", True), ("true", True)),
    ("drain_timeout", ("0", 0.0), ("1.5", 1.5), ("2", 2.0)),
    ("max_body_size", ("1MB", 1024**2), ("2048", 2048), ('"3k"', 3072)),
    ("max_audio_size", ("1MB", 1024**2), ("2048", 2048), ('"3k"', 3072)),
]


@pytest.mark.parametrize(("name", "flag", "variable", "line"), SOURCES, ids=[s[0] for s in SOURCES])
def test_order_of_sources(
    tmp_path: Path,
    name: str,
    flag: tuple[object, Any],
    variable: tuple[str, Any],
    line: tuple[str, Any],
) -> None:
    parameter = next(p for p in PARAMETERS if p.name == name)
    file = written(tmp_path, f"{name} = {line[0]}\n")
    flags, environ = {name: flag[0]}, {parameter.variable: variable[0]}
    default = getattr(Settings(), parameter.field)
    cases = [
        (load(flags, environ, file=file), flag[1], f"flag --{name.replace('_', '-')}"),
        (load({}, environ, file=file), variable[1], f"environment MAXI_MLX_{name.upper()}"),
        (load({}, {}, file=file), line[1], f"file {file}"),
        (load({}, {}), default, "default"),
    ]
    for settings, value, source in cases:
        assert (getattr(settings, parameter.field), settings.sources[parameter.field]) == (
            value,
            source,
        )


def test_every_parameter_has_its_row() -> None:
    covered = {row[0] for row in SOURCES}
    # These two need files or a partner, and have tests of their own.
    assert covered | {"api_key_file", "tls_key"} == {p.name for p in PARAMETERS}


def test_every_setting_can_be_set_and_has_a_source() -> None:
    settings = load()
    names = {field.name for field in fields(Settings)} - {"sources"}
    assert {p.field for p in PARAMETERS} == names - {"scheduler", "models", "adapter_models"}
    scheduler = {field.name for field in fields(SchedulerSettings)}
    assert set(SCHEDULER) == scheduler
    assert set(settings.sources) == names | {f"scheduler.{name}" for name in scheduler}


def test_strategy_sets_the_scheduler_and_the_file_overrides_one_by_one(tmp_path: Path) -> None:
    file = written(tmp_path, "[scheduler]\nmax_running_rows = 3\nmemory_share = 0.25\n")
    settings = load({"strategy": "latency"}, file=file)
    assert settings.scheduler.max_running_rows == 3
    assert settings.scheduler.memory_share == 0.25
    assert settings.scheduler.prefill_slice_tokens == STRATEGIES["latency"].prefill_slice_tokens
    assert settings.sources["scheduler.max_running_rows"] == f"file {file}"
    assert settings.sources["scheduler.prefill_slice_tokens"] == "strategy latency"
    assert settings.sources["strategy"] == "flag --strategy"


def test_relative_paths_start_where_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    file = written(folder, 'model_dir = "models"\n')
    monkeypatch.chdir(tmp_path)
    assert load(file=file).model_dirs == (folder / "models",)
    assert load({"model_dir": ("models",)}).model_dirs == (tmp_path / "models",)


def test_default_file_is_read_where_it_exists(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 5\n")
    assert load(default=file).port == 5
    assert load(default=tmp_path / "none.toml").port == 11434


def test_config_is_named_by_flag_before_environment(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    flagged, by_variable = written(tmp_path / "a", "port = 1\n"), written(tmp_path, "port = 2\n")
    environ = {"MAXI_MLX_CONFIG": str(by_variable)}
    assert load({}, environ).port == 2
    assert load({}, environ, file=flagged).port == 1
    with pytest.raises(SetupError, match="~no-such-user/a: no such file"):
        load({}, {"MAXI_MLX_CONFIG": "~no-such-user/a"})


def test_empty_variables_count_as_not_set() -> None:
    settings = load({}, {"MAXI_MLX_API_KEY": "", "MAXI_MLX_PORT": ""})
    assert (settings.api_keys, settings.port) == ((), 11434)


def test_keys_of_a_file_join_those_beside_it_and_replace_those_below(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# ours\nfirst\n\n  second  \n")
    flags = {"api_key": ("zeroth",), "api_key_file": str(keys)}
    settings = load(flags, {"MAXI_MLX_API_KEY": "other"})
    assert settings.api_keys == ("zeroth", "first", "second")
    assert settings.sources["api_keys"] == "flag --api-key, flag --api-key-file"


def test_keys_never_show(tmp_path: Path) -> None:
    settings = load({"api_key": ("hush-hush",)})
    assert "hush" not in repr(settings)
    with pytest.raises(SetupError) as caught:
        load({"api_key": ("hush hush",)})
    assert "hush" not in caught.value.message


WRONG_FLAGS = [
    ({"port": "abc"}, 'flag --port: "abc" is not a whole number from 0 to 65535'),
    ({"port": "65536"}, 'flag --port: "65536" is not a whole number from 0 to 65535'),
    ({"backend": "gpu"}, 'flag --backend: "gpu" is not one of auto, metal, cuda, cpu'),
    ({"drain_timeout": "-1"}, 'flag --drain-timeout: "-1" is not a number of seconds, 0 or more'),
    ({"drain_timeout": "nan"}, 'flag --drain-timeout: "nan" is not a number of seconds, 0 or more'),
    (
        {"max_body_size": "lots"},
        'flag --max-body-size: "lots" is not a size such as 256MB or a number of bytes',
    ),
    (
        {"cors": ("localhost",)},
        "flag --cors: \"localhost\" is not '*' or an origin such as http://localhost:3000",
    ),
    (
        {"api_key": ("",)},
        "flag --api-key: the value is not a key of printable ASCII without spaces",
    ),
    (
        {"log_prompts": True, "log_level": "error"},
        "flag --log-prompts: prompts are logged at info, and the log begins at error (flag "
        "--log-level)",
    ),
    ({"tls_key": "/k"}, "flag --tls-key: a key without its certificate; give --tls-cert"),
    ({"api_key_file": "/no/keys"}, "flag --api-key-file: can't read /no/keys: no such file"),
]


@pytest.mark.parametrize(
    ("flags", "message"),
    WRONG_FLAGS,
    ids=[f"{next(iter(f))}-{i}" for i, (f, _) in enumerate(WRONG_FLAGS)],
)
def test_wrong_flags(flags: Mapping[str, object], message: str) -> None:
    with pytest.raises(SetupError) as caught:
        load(flags)
    assert caught.value.message.startswith(message)


def test_wrong_variable() -> None:
    with pytest.raises(SetupError, match=r'^environment MAXI_MLX_PORT: "x" is not a whole number'):
        load({}, {"MAXI_MLX_PORT": "x"})


WRONG_FILES = [
    ("prot = 5", "unknown key 'prot'; did you mean 'port'?"),
    ("max-body-size = 5", "unknown key 'max-body-size'; did you mean 'max_body_size'?"),
    ("model_dirs = []", "unknown key 'model_dirs'; did you mean 'model_dir'?"),
    ("decode_share = 0.5", "unknown key 'decode_share'; did you mean 'scheduler.decode_share'?"),
    ("[scheduler]\nport = 5", "unknown key 'scheduler.port'; did you mean 'port'?"),
    (
        "[scheduler]\nmax_runing_rows = 5",
        "unknown key 'scheduler.max_runing_rows'; did you mean 'scheduler.max_running_rows'?",
    ),
    (
        "pull_default = true",
        "unknown key 'pull_default'; it is a flag alone: `maxi-mlx serve --pull-default`",
    ),
    ("zzzz = 5", "unknown key 'zzzz'; known are adapter_dir, adapters, api_key,"),
    ('port = "80"', ', port: "80" is not a whole number from 0 to 65535'),
    ("port = true", ", port: true is not a whole number from 0 to 65535"),
    ('drain_timeout = "5"', ', drain_timeout: "5" is not a number of seconds, 0 or more'),
    ("model_dir = [5]", ", model_dir: 5 is not a folder"),
    ("model = []", ", model: [] is not a model's name"),
    ("scheduler = 5", "scheduler is not a table; write [scheduler]"),
    (
        "[scheduler]\nmax_running_rows = 0",
        ", scheduler.max_running_rows: 0 is not a whole number of 1 or more",
    ),
    (
        "[scheduler]\nmemory_share = 1.5",
        ", scheduler.memory_share: 1.5 is not a number between 0 and 1",
    ),
    ("port = ", " is not TOML: Invalid value (at line 1"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_FILES, ids=[w[0] for w in WRONG_FILES])
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text + "\n")
    with pytest.raises(SetupError) as caught:
        load(file=file)
    assert caught.value.message.startswith(f"file {file}")
    assert message in caught.value.message


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"can't read the configuration .*: no such file"):
        load(file=tmp_path / "none.toml")
    with pytest.raises(SetupError, match=r"can't read the configuration .*: is a directory"):
        load(file=tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'model = "\xe9"\n')
    with pytest.raises(SetupError, match="is not TOML"):
        load(file=tmp_path / "latin.toml")


def test_variables_that_are_no_settings() -> None:
    environ = {"MAXI_MLX_PROT": "5", "MAXI_MLX_PORT": "5", "MAXI_MLX_HOME": "/x", "PATH": ""}
    assert configuration.unknown_variables(environ) == (
        "environment MAXI_MLX_PROT is no setting; did you mean 'MAXI_MLX_PORT'?",
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ZZZ", ""),
        ("CONFGI", "; did you mean 'MAXI_MLX_CONFIG'?"),
        ("DECODE_SHARE", "; decode_share is set in the file alone, under [scheduler]"),
        ("SCHEDULER_DECODE_SHARE", "; decode_share is set in the file alone, under [scheduler]"),
        ("PULL_DEFAULT", "; it is a flag alone: `maxi-mlx serve --pull-default`"),
    ],
)
def test_what_a_variable_was_meant_to_be(name: str, words: str) -> None:
    told = configuration.unknown_variables({f"MAXI_MLX_{name}": "1"})
    assert told == (f"environment MAXI_MLX_{name} is no setting{words}",)


@pytest.mark.parametrize(
    ("flags", "environ", "value", "source"),
    [
        ({"store": False}, {"MAXI_MLX_STORE": "true"}, False, "flag --no-store"),
        ({"store": None}, {"MAXI_MLX_STORE": "0"}, False, "environment MAXI_MLX_STORE"),
        ({}, {"MAXI_MLX_STORE": "True"}, True, "environment MAXI_MLX_STORE"),
    ],
)
def test_a_switch(
    flags: Mapping[str, object], environ: Mapping[str, str], value: bool, source: str
) -> None:
    settings = load(flags, environ)
    assert (settings.store, settings.sources["store"]) == (value, source)


def test_a_switch_is_true_or_false() -> None:
    with pytest.raises(SetupError, match='"maybe" is not true or false'):
        load({}, {"MAXI_MLX_STORE": "maybe"})


def test_bits_and_a_window_exclude_each_other() -> None:
    with pytest.raises(SetupError, match="flag --max-kv-size: not together with kv_bits"):
        load({"kv_bits": "4", "max_kv_size": "512"})
