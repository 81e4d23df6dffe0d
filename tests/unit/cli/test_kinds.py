"""What each kind of setting takes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxi_mlx.cli import kinds
from maxi_mlx.cli.kinds import Kind

PORT = kinds.whole(0, 65535)
SHARE = kinds.number("between 0 and 1", lambda value: 0 < value < 1)
BACKEND = kinds.one_of(("auto", "cpu"))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param(PORT, 0, 0, id="port-lowest"),
        pytest.param(PORT, 65535, 65535, id="port-highest"),
        pytest.param(kinds.whole(1), 10**9, 10**9, id="no-upper-end"),
        pytest.param(SHARE, 0.5, 0.5, id="share"),
        pytest.param(BACKEND, "cpu", "cpu", id="choice"),
        pytest.param(kinds.words("x"), "a b", "a b", id="words"),
        pytest.param(kinds.path("x"), "/a/b", Path("/a/b"), id="path"),
        pytest.param(kinds.path("x"), "~/b", Path.home() / "b", id="path-home"),
        pytest.param(kinds.size(), 1, 1, id="size-bytes"),
        pytest.param(kinds.size(), "17", 17, id="size-bare"),
        pytest.param(kinds.size(), "17B", 17, id="size-b"),
        pytest.param(kinds.size(), "2k", 2048, id="size-k"),
        pytest.param(kinds.size(), "256MB", 256 * 1024**2, id="size-mb"),
        pytest.param(kinds.size(), "3 MiB", 3 * 1024**2, id="size-mib"),
        pytest.param(kinds.size(), "1gb", 1024**3, id="size-gb"),
        pytest.param(kinds.origin(), "*", "*", id="origin-any"),
        pytest.param(kinds.origin(), "http://A.example:3000/", "http://a.example:3000", id="url"),
        pytest.param(kinds.origin(), "tauri://localhost", "tauri://localhost", id="app"),
        pytest.param(kinds.api_key(), "sk-1!~", "sk-1!~", id="key"),
    ],
)
def test_takes(kind: Kind, value: object, expected: object) -> None:
    assert kind.check(value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(PORT, -1, id="port-below"),
        pytest.param(PORT, 65536, id="port-above"),
        pytest.param(PORT, 80.0, id="port-float"),
        pytest.param(PORT, True, id="port-bool"),
        pytest.param(PORT, "80", id="port-text"),
        pytest.param(SHARE, 0, id="share-0"),
        pytest.param(SHARE, 1, id="share-1"),
        pytest.param(SHARE, float("nan"), id="share-nan"),
        pytest.param(SHARE, float("inf"), id="share-inf"),
        pytest.param(SHARE, False, id="share-bool"),
        pytest.param(BACKEND, "CPU", id="choice-case"),
        pytest.param(BACKEND, ["cpu"], id="choice-list"),
        pytest.param(kinds.words("x"), "", id="words-empty"),
        pytest.param(kinds.words("x"), 5, id="words-number"),
        pytest.param(kinds.path("x"), "", id="path-empty"),
        pytest.param(kinds.path("x"), "~no-such-user-here/a", id="path-no-user"),
        pytest.param(kinds.size(), 0, id="size-0"),
        pytest.param(kinds.size(), "0MB", id="size-0mb"),
        pytest.param(kinds.size(), "-5", id="size-negative"),
        pytest.param(kinds.size(), "5 apples", id="size-unit"),
        pytest.param(kinds.size(), "1.5GB", id="size-fraction"),
        pytest.param(kinds.size(), 1.5, id="size-float"),
        pytest.param(kinds.size(), True, id="size-bool"),
        pytest.param(kinds.origin(), "localhost", id="origin-no-scheme"),
        pytest.param(kinds.origin(), "http://a/b", id="origin-path"),
        pytest.param(kinds.origin(), "http://", id="origin-no-host"),
        pytest.param(kinds.api_key(), "", id="key-empty"),
        pytest.param(kinds.api_key(), "a b", id="key-space"),
        pytest.param(kinds.api_key(), "ключ", id="key-not-ascii"),
        pytest.param(kinds.api_key(), "a\n", id="key-newline"),
    ],
)
def test_refuses(kind: Kind, value: object) -> None:
    with pytest.raises(ValueError):
        kind.check(value)
