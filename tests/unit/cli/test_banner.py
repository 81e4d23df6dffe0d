"""The banner's text, its first request, and the table of `list`."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.cli.banner import banner, curl_line, exposure_warning
from maxi_mlx.cli.list import described, table
from maxi_mlx.cli.terminal import Paint, columns, size_text
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.device import DeviceInfo

PLAIN = Paint(is_on=False)
INFO = DeviceInfo(
    backend="cpu",
    name="Some Chip",
    memory_bytes=16_000_000_000,
    mlx_version="0.32.4",
    blas="OpenBLAS 0.3, 1 thread",
    advice=("apt-get install it",),
)
QWEN = ModelEntry(
    id="Qwen3-0.6B",
    path=Path("/models/Qwen3-0.6B"),
    kind="language",
    org_name=None,
    source="/models",
    model_type="qwen3",
    architecture=None,
    weight_bytes=335_000_000,
    quantization="4-bit",
    context_length=40960,
    created=0,
)
BROKEN = replace(QWEN, id="half", problem="model.safetensors is missing")


def test_whole_text() -> None:
    text = banner(
        "http://127.0.0.1:11434", [QWEN, BROKEN], info=INFO, settings=Settings(), paint=PLAIN
    )
    head, _, tail = text.partition("  Try      ")
    assert head == (
        "maxi-mlx 0.1.0 at http://127.0.0.1:11434\n\n"
        "  Models   Qwen3-0.6B  language  4-bit  335 MB\n"
        "           1 more can't be served; `maxi-mlx list` says why\n"
        "  Runs on  the CPU (Some Chip, 16.0 GB, MLX 0.32.4, OpenBLAS 0.3)\n"
        "  Faster   apt-get install it\n\n"
    )
    assert tail.startswith("curl http://127.0.0.1:11434/v1/chat/completions -d ")


def test_ten_models_are_named() -> None:
    entries = [replace(QWEN, id=f"m{number}") for number in range(13)]
    text = banner("http://x", entries, info=INFO, settings=Settings(), paint=PLAIN)
    assert "m9 " in text
    assert "m10" not in text
    assert "… and 3 more (maxi-mlx list)" in text


def test_only_broken_models_are_no_models() -> None:
    text = banner("http://x", [BROKEN], info=INFO, settings=Settings(), paint=PLAIN)
    assert "Models   none yet; `maxi-mlx pull smollm2`" in text
    assert "curl" not in text


def test_the_model_to_load_is_the_one_to_try() -> None:
    other = replace(QWEN, id="other")
    settings = Settings(model="other")
    text = banner("http://x", [QWEN, other], info=INFO, settings=settings, paint=PLAIN)
    assert '"model": "other"' in text


@pytest.mark.parametrize("model", ["plain", 'it\'s "quoted" $HOME', "org/näme"])
def test_curl_line_survives_the_shell(model: str) -> None:
    words = shlex.split(curl_line("http://127.0.0.1:1", model, settings=Settings()))
    assert words[:3] == ["curl", "http://127.0.0.1:1/v1/chat/completions", "-d"]
    assert json.loads(words[3])["model"] == model


@pytest.mark.parametrize(
    ("keys", "source", "word"),
    [
        (("hush",), "environment MAXI_MLX_API_KEY", "$MAXI_MLX_API_KEY"),
        (("hush", "hush2"), "environment MAXI_MLX_API_KEY", "KEY"),
        (("hush",), "environment MAXI_MLX_API_KEY_FILE", "KEY"),
        (("hush",), "flag --api-key", "KEY"),
    ],
)
def test_curl_line_with_key_and_certificate_names_no_secret(
    keys: tuple[str, ...], source: str, word: str
) -> None:
    settings = Settings(api_keys=keys, tls_cert=Path("/c"), sources={"api_keys": source})
    line = curl_line("https://127.0.0.1:1", "m", settings=settings)
    assert "hush" not in line
    assert f' -k -H "Authorization: Bearer {word}" -d ' in line


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1"])
def test_the_network_is_named_where_it_is_let_in(host: str) -> None:
    settings = Settings(host=host)
    text = banner("http://x", [], info=INFO, settings=settings, paint=PLAIN)
    place = "" if host == "127.0.0.1" else " and on this machine's network addresses"
    assert text.startswith(f"maxi-mlx 0.1.0 at http://x{place}\n")


@pytest.mark.parametrize(
    ("is_loopback", "keys", "warns"),
    [(True, (), False), (False, ("k",), False), (False, (), True), (True, ("k",), False)],
)
def test_exposure(is_loopback: bool, keys: tuple[str, ...], warns: bool) -> None:
    settings = Settings(host="0.0.0.0", api_keys=keys)
    assert (exposure_warning(settings, is_loopback=is_loopback) is not None) is warns


def test_table_of_models() -> None:
    hub = Path.home() / ".cache/huggingface/hub"
    roots = [Root(Path("/models"), "/models", "folders"), Root(hub, "hub cache", "hub")]
    unknown = replace(
        QWEN,
        id="x",
        org_name="acme/x",
        path=hub / "models--acme--x/snapshots/1",
        quantization=None,
        context_length=None,
        source="hub cache",
    )
    assert table([QWEN, unknown, BROKEN], roots, paint=PLAIN) == [
        "ID          ORG   KIND      SIZE    QUANTIZATION  CONTEXT  WHERE",
        "Qwen3-0.6B        language  335 MB  4-bit         40960    /models",
        "x           acme  language  335 MB  none          unknown  ~/.cache/huggingface/hub",
        "",
        "Can't be served:",
        "half  /models  model.safetensors is missing",
    ]
    lines = table([], [*roots, Root(Path.home(), "~", "folders")], paint=PLAIN)
    assert lines[3] == "  ~"
    assert lines[:3] == [
        "No model that can be served. Looked in:",
        "  /models",
        "  ~/.cache/huggingface/hub",
    ]


def test_json_of_a_model_is_plain() -> None:
    value = json.loads(json.dumps(described(BROKEN)))
    assert value["path"] == "/models/Qwen3-0.6B"
    assert value["problem"] == "model.safetensors is missing"


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_499, "999 kB"),
        (999_600, "1 MB"),
        (538_060_032, "538 MB"),
        (999_600_000, "1.0 GB"),
        (2_049_000_000_000, "2049.0 GB"),
    ],
)
def test_sizes(num_bytes: int, text: str) -> None:
    assert size_text(num_bytes) == text


def test_columns() -> None:
    assert columns([("a", "bbb", "c"), ("aaaa", "b", "")]) == ["a     bbb  c", "aaaa  b"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "is_on"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (io.StringIO(), {"TERM": "xterm"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
    ],
    ids=["terminal", "pipe", "NO_COLOR", "dumb"],
)
def test_colours_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, environment: dict[str, str], is_on: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    paint = Paint.on(stream)
    assert paint.is_on is is_on
    assert (paint("text", "red") != "text") is is_on
