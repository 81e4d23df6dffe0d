"""docs/clients.md shows what `maxi-mlx connect` prints, for every client and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maxi_mlx.cli.clients import CLIENTS
from maxi_mlx.cli.clients.guide import Block, Server
from maxi_mlx.cli.connect import text

PAGE = Path(__file__).parents[4] / "docs" / "clients.md"
SECTIONS = {
    title: body
    for title, _, body in (
        section.partition("\n") for section in PAGE.read_text().split("\n## ")[1:]
    )
}
SERVER = Server(
    url="http://127.0.0.1:11434",
    api_key=None,
    model="Qwen3-4B-4bit",
    context_length=40960,
    takes_tools=True,
)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "CONTINUE_GLOBAL_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path.parent)
    return tmp_path


def test_each_client_has_a_section() -> None:
    assert list(SECTIONS) == [client.title for client in CLIENTS.values()]


@pytest.mark.parametrize("name", CLIENTS)
def test_the_section_shows_what_is_printed(name: str, home: Path) -> None:
    client = CLIENTS[name]
    section = SECTIONS[client.title]
    parts = client.guide(SERVER)
    shown = [
        (part.language if isinstance(part, Block) else part.format, text(part)) for part in parts
    ]
    assert FENCE.findall(section) == shown
    files = [part.path for part in parts if not isinstance(part, Block)]
    says_write = f"`maxi-mlx connect {name} --write`" in section
    assert says_write == bool(files)
    assert says_write or f"`maxi-mlx connect {name}`" in section
    for path in files:
        is_home = path.is_relative_to(home)
        assert f"`{f'~/{path.relative_to(home)}' if is_home else path.name}`" in section
