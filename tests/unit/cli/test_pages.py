"""What README.md and docs/ tell readers to type or to write is taken by the program."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from maxi_mlx.cli import configuration
from maxi_mlx.cli.main import commands as cli
from tests.unit.cli.commands import environment, serving

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
RUNS = re.compile(r"maxi-mlx (cache|chat|completion|connect|list|ps|run)\b")
BARE_RUN = "maxi-mlx run"  # a name in a sentence: it takes a question
INLINE = re.compile(r"`(maxi-mlx [^`]+)`")
# Words that stand for something of the reader's own; in brackets, what may be left out.
PLACEHOLDER = re.compile(r"[A-Z]{2,}|[…\[\]|]")


@dataclass(frozen=True)
class Fenced:
    page: Path
    language: str
    text: str


def fenced(*languages: str) -> Iterator[Fenced]:
    for page in PAGES:
        for language, text in FENCE.findall(page.read_text()):
            if language in languages:
                yield Fenced(page, language, text)


def commands() -> Iterator[str]:
    """Every `maxi-mlx …` that a reader is told to type."""
    for block in fenced("sh"):
        joined = block.text.replace("\\\n", " ")
        for line in joined.splitlines():
            found = re.findall(r"(?:^|&& )(maxi-mlx [^&|#>]+)", line.strip())
            yield from (command.strip() for command in found)
    for page in PAGES:
        for command in INLINE.findall(page.read_text()):
            if not PLACEHOLDER.search(command):
                yield command.replace("\n", " ")


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def parsed(command: str) -> None:
    """Has click read it, without running it."""
    arguments = shlex.split(command)[1:]
    context = click.Context(cli, info_name="maxi-mlx")
    current: click.Command = cli
    while isinstance(current, click.Group) and arguments:
        name, found, arguments = current.resolve_command(context, arguments)
        assert found is not None
        current, context = found, click.Context(found, parent=context, info_name=name)
    current.make_context(context.info_name, arguments).close()


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_command_that_is_shown_is_one(command: str) -> None:
    parsed(command)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_can_be_run_beside_a_server_ends_well(tmp_path: Path, scripted_model: Path) -> None:
    """As it is shown, at a model that has the name. What fetches, installs or serves is tested
    where it is built."""
    shutil.copytree(scripted_model, tmp_path / ".maxi-mlx" / "models" / "Qwen3-4B-4bit")
    (tmp_path / "letter.txt").write_text("Hello!")
    shown = sorted(
        command for command in set(commands()) if RUNS.match(command) and command != BARE_RUN
    )
    assert len(shown) > 25
    with serving(home=tmp_path) as (_, port):
        there = environment(tmp_path, {"MAXI_MLX_PORT": str(port)})
        there["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{there['PATH']}"
        for command in shown:
            done = subprocess.run(
                ["sh", "-c", command],
                env=there,
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
            assert done.stdout or command.startswith("maxi-mlx c"), command


@pytest.mark.parametrize("command", ["maxi-mlx sevre", "maxi-mlx serve --prot 1", "maxi-mlx pull"])
def test_a_command_that_is_none_would_be_found(command: str) -> None:
    with pytest.raises(click.UsageError):
        parsed(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors_of(file), target


def test_settings_files_are_taken(tmp_path: Path) -> None:
    """Those of config.toml; other programs' files are checked where their clients are."""
    (tmp_path / "keys.txt").write_text("a-key\n")
    shown = [block for block in fenced("toml") if block.page.name != "clients.md"]
    assert shown
    for block in shown:
        tomllib.loads(block.text)
        file = tmp_path / "config.toml"
        file.write_text(block.text)
        assert configuration.load({}, config=file, default_config=file, environ={}).sources


def test_json_is_json() -> None:
    shown = list(fenced("json"))
    assert shown
    for block in shown:
        json.loads(block.text)


def test_make_targets_and_extras_are_there() -> None:
    makefile, project = (ROOT / "Makefile").read_text(), (ROOT / "pyproject.toml").read_text()
    extras = tomllib.loads(project)["project"]["optional-dependencies"]
    words = "\n".join(page.read_text() for page in PAGES)
    targets = set(re.findall(r"`make (\w+)[^`]*`", words))
    for block in fenced("sh"):
        targets.update(re.findall(r"^make (\w+)", block.text, re.MULTILINE))
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for names in set(re.findall(r"pip install -e '\.\[([\w,-]+)\]'", words)):
        assert set(names.split(",")) <= extras.keys(), names
