"""Who may call from a browser."""

from __future__ import annotations

import pytest

from maxi_mlx.core.settings import Settings
from maxi_mlx.server.origins import OriginPolicy, host_name, is_local_name

LOCAL = OriginPolicy.of(Settings())
LISTED = OriginPolicy.of(
    Settings(cors_origins=("https://chat.example", "chrome-extension://abc", "null"))
)
ANY = OriginPolicy.of(Settings(cors_origins=("*",)))
OPEN = OriginPolicy.of(Settings(host="0.0.0.0"))


@pytest.mark.clients(61)
@pytest.mark.parametrize(
    ("policy", "origin", "is_allowed"),
    [
        (LOCAL, "http://localhost", True),
        (LOCAL, "http://localhost:3000", True),
        (LOCAL, "https://LOCALHOST:3000/", True),
        (LOCAL, "http://app.localhost:5173", True),
        (LOCAL, "http://127.0.0.1:8080", True),
        (LOCAL, "http://127.9.9.9", True),
        (LOCAL, "http://[::1]:8080", True),
        (LOCAL, "vscode-webview://1k2j3h", True),
        (LOCAL, "vscode-file://vscode-app", True),
        (LOCAL, "tauri://localhost", True),
        (LOCAL, "app://obsidian.md", True),
        (LOCAL, "capacitor://localhost", True),
        (LOCAL, "file://", True),
        (LOCAL, "https://evil.example", False),
        (LOCAL, "http://localhost.evil.example", False),
        (LOCAL, "http://127.0.0.1.evil.example", False),
        (LOCAL, "http://evil-localhost", False),
        (LOCAL, "http://localhost@evil.example", False),
        (LOCAL, "http://128.0.0.1", False),
        (LOCAL, "http://192.168.1.7:3000", False),
        (LOCAL, "http://[::1", False),
        (LOCAL, "chrome-extension://abc", False),
        (LOCAL, "null", False),
        (LOCAL, "", False),
        (LOCAL, "localhost", False),
        (LOCAL, "https://", False),
        (LISTED, "https://chat.example", True),
        (LISTED, "HTTPS://Chat.Example", True),
        (LISTED, "chrome-extension://abc", True),
        (LISTED, "null", True),
        (LISTED, "http://localhost:3000", True),
        (LISTED, "http://chat.example", False),
        (LISTED, "https://chat.example:8443", False),
        (LISTED, "https://sub.chat.example", False),
        (LISTED, "chrome-extension://abcd", False),
        (ANY, "https://evil.example", True),
        (ANY, "null", True),
        (ANY, "https://\udcff.example", False),
        (OPEN, "https://evil.example", False),
    ],
)
def test_point_61_origins(policy: OriginPolicy, origin: str, is_allowed: bool) -> None:
    assert policy.allows_origin(origin, host="127.0.0.1:11434") is is_allowed


@pytest.mark.parametrize(
    ("origin", "host", "is_allowed"),
    [
        ("http://192.168.1.7:11434", "192.168.1.7:11434", True),
        ("http://mac.local:11434", "MAC.local:11434", True),
        ("http://192.168.1.7:3000", "192.168.1.7:11434", False),
        ("http://192.168.1.7", "192.168.1.7:11434", False),
        ("http://192.168.1.7:11434", None, False),
    ],
)
def test_a_page_of_this_server_may_call_it(origin: str, host: str | None, is_allowed: bool) -> None:
    assert OPEN.allows_origin(origin, host=host) is is_allowed


@pytest.mark.clients(61)
@pytest.mark.parametrize(
    ("policy", "host", "is_allowed"),
    [
        (LOCAL, "localhost", True),
        (LOCAL, "localhost:11434", True),
        (LOCAL, "LocalHost.:11434", True),
        (LOCAL, "maxi.localhost", True),
        (LOCAL, "127.0.0.1:11434", True),
        (LOCAL, "127.1.2.3", True),
        (LOCAL, "[::1]:11434", True),
        (LOCAL, "0.0.0.0:11434", True),
        (LOCAL, "host.docker.internal:11434", True),
        (LOCAL, None, True),
        (LOCAL, "evil.example", False),
        (LOCAL, "evil.example:11434", False),
        (LOCAL, "localhost.evil.example", False),
        (LOCAL, "127.0.0.1.nip.example", False),
        (LOCAL, "localhost@evil.example", False),
        (LOCAL, "internal", False),
        (LOCAL, "[::1", False),
        (LOCAL, "", False),
        (LISTED, "chat.example", True),
        (LISTED, "evil.example", False),
        (ANY, "evil.example", True),
        (OPEN, "anything.example", True),
        (OriginPolicy.of(Settings(host="localhost")), "evil.example", False),
        (OriginPolicy.of(Settings(host="::1")), "evil.example", False),
        (OriginPolicy.of(Settings(host="127.0.0.2")), "127.0.0.2:1", True),
        (OriginPolicy.of(Settings(host="maxi.localhost")), "maxi.localhost", True),
    ],
)
def test_point_61_host_names(policy: OriginPolicy, host: str | None, is_allowed: bool) -> None:
    assert policy.allows_host(host) is is_allowed


@pytest.mark.parametrize(
    ("netloc", "name"),
    [
        ("a.example:80", "a.example"),
        ("A.Example.", "a.example"),
        ("[::1]:80", "::1"),
        ("user:secret@a.example", "a.example"),
        (":80", None),
        ("[", None),
    ],
)
def test_host_names_are_read_from_addresses(netloc: str, name: str | None) -> None:
    assert host_name(netloc) == name


@pytest.mark.parametrize("name", ["example", "local", "1.2.3.4", "::2", "10.0.0.1", "0.0.0.0"])
def test_other_names_are_not_local(name: str) -> None:
    assert not is_local_name(name)
