"""``maxi-mlx cache``: what prompts are kept on disk, whether they are whole, and removing them.

Works on the folder alone, so that a server may go on meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from maxi_mlx.catalog.names import printable
from maxi_mlx.cli.options import settings_of, settings_options
from maxi_mlx.cli.progress import progress_on
from maxi_mlx.cli.terminal import Paint, ask, columns, size_text
from maxi_mlx.core.errors import SetupError
from maxi_mlx.kv_cache.disk.folder import CacheFolder, default_folder
from maxi_mlx.kv_cache.disk.index import PieceFile
from maxi_mlx.kv_cache.disk.piece_file import BrokenPiece

HEADS = ("MODEL", "FORM", "FILES", "TOKENS", "SIZE", "LAST USED")
UNKNOWN = "unknown"

model_option = click.option(
    "--model", metavar="NAME", help="Of this model alone, as `maxi-mlx cache list` names it."
)


@dataclass(frozen=True, slots=True)
class Share:
    """What one model keeps. ``form`` tells its weights and its caches apart from others'."""

    model: str
    form: str
    root: str
    files: tuple[PieceFile, ...]

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)

    @property
    def used_s(self) -> float:
        return max(file.used_ns for file in self.files) / 1e9


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cache() -> None:
    """Show, check or clear the prompts kept on disk.

    A server keeps what it has read there, so that the same beginning of a prompt need not be read
    again after a restart. The files hold people's prompts; only this user may read them.

    \b
    Example: maxi-mlx cache clear --model SmolLM2-135M-Instruct
    """


@cache.command("list", short_help="Show what each model keeps.")
@settings_options("cache_dir")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for programs.")
def list_cache(*, as_json: bool, **flags: Any) -> None:
    """Show what each model keeps: files, tokens, size, and when it was last used.

    \b
    Example: maxi-mlx cache list --json
    """
    folder = _folder(flags)
    described = [_described(share, folder) for share in _shares(folder)]
    if as_json:
        click.echo(json.dumps(described, indent=2))
        return
    if not described:
        click.echo(f"No prompts are kept in {printable(str(folder.path))}")
        return
    heads, *rows = columns([HEADS, *map(_row, described)])
    click.echo(Paint.on(sys.stdout)(heads, bold=True))
    for row in rows:
        click.echo(row)


@cache.command(short_help="Read every file, and remove bad ones.")
@settings_options("cache_dir")
@model_option
@click.pass_context
def verify(context: click.Context, /, *, model: str | None, **flags: Any) -> None:
    """Read every file; remove those that are damaged or of another version.

    The exit code is 1 where there were any.

    \b
    Example: maxi-mlx cache verify
    """
    folder = _folder(flags)
    files = [file for share in _chosen(folder, model) for file in share.files]
    num_bad = 0
    with progress_on(sys.stderr) as progress:
        progress.start("Reading", sum(file.num_bytes for file in files), unit="bytes")
        for file in files:
            problem = _problem(folder, file)
            if problem is not None:
                num_bad += 1
                progress.say(f"{printable(folder.path_of(file), max_length=4096)} {problem}")
            progress.advance(file.num_bytes)
        progress.done()
    result = f"{num_bad} bad and removed" if num_bad else "all whole"
    click.echo(f"{_counted(len(files), 'file')}, {result}")
    context.exit(1 if num_bad else 0)


@cache.command(short_help="Remove prompts, of all models or of one.")
@settings_options("cache_dir")
@model_option
@click.option("--yes", is_flag=True, help="Don't ask.")
def clear(*, model: str | None, yes: bool, **flags: Any) -> None:
    """Remove the prompts kept, of all models or of one.

    A running server goes on, and keeps what it reads from then on.

    \b
    Example: maxi-mlx cache clear --model SmolLM2-135M-Instruct --yes
    """
    folder = _folder(flags)
    shares = _chosen(folder, model)
    num_files = sum(len(share.files) for share in shares)
    if not num_files:
        click.echo(f"No prompts are kept in {printable(str(folder.path))}")
        return
    size = size_text(sum(share.num_bytes for share in shares))
    if not yes:
        question = (
            f"Remove {_counted(num_files, 'file')} ({size}) from {printable(str(folder.path))}?"
        )
        ask(question, unasked="say --yes to remove the prompts")
    with _explained(folder):
        for share in shares:
            for file in share.files:
                folder.remove(file)
            folder.remove_empty(share.root)
    click.echo(f"Removed {_counted(num_files, 'file')}, {size}")


def _folder(flags: dict[str, Any]) -> CacheFolder:
    settings = settings_of(flags)
    path = settings.cache_dir
    if path is None:
        return CacheFolder(default_folder())
    if not os.path.isdir(path):
        what = "is not a folder" if os.path.lexists(path) else "does not exist"
        raise SetupError(f"{settings.sources['cache_dir']}: {path} {what}")
    return CacheFolder(path)


def _shares(folder: CacheFolder) -> list[Share]:
    """In the order of their names."""
    with _explained(folder):
        by_root: dict[str, list[PieceFile]] = {}
        for file in folder.listing().files:
            by_root.setdefault(file.root, []).append(file)
    shares = []
    for root, files in by_root.items():
        namespace = _namespace(folder, root, files)
        model, _, form = printable(namespace).partition("|")
        shares.append(Share(model.strip(), form.strip(), root, tuple(files)))
    return sorted(shares, key=lambda share: (share.model.casefold(), share.form, share.root))


def _namespace(folder: CacheFolder, root: str, files: Sequence[PieceFile]) -> str:
    """By the note in the folder; without it, by the first piece that says so."""
    namespace = folder.namespace_of(root)
    if namespace is not None:
        return namespace
    for file in files:
        with contextlib.suppress(OSError, BrokenPiece):
            return folder.read_header(file).namespace
    return UNKNOWN


def _chosen(folder: CacheFolder, model: str | None) -> list[Share]:
    shares = _shares(folder)
    if model is None:
        return shares
    chosen = [share for share in shares if share.model.casefold() == model.casefold()]
    if not chosen:
        names = ", ".join(dict.fromkeys(share.model for share in shares)) or "none"
        raise SetupError(f"flag --model: no prompts of '{model}' are kept; there are: {names}")
    return chosen


def _described(share: Share, folder: CacheFolder) -> dict[str, Any]:
    return {
        "model": share.model,
        "form": share.form,
        "num_files": len(share.files),
        "num_tokens": sum(_num_tokens(folder, file) for file in share.files),
        "num_bytes": share.num_bytes,
        "last_used": datetime.fromtimestamp(share.used_s, UTC).isoformat(timespec="seconds"),
    }


def _num_tokens(folder: CacheFolder, file: PieceFile) -> int:
    """Tokens whose keys and values are kept; a checkpoint's tokens are those of blocks."""
    try:
        head = folder.read_header(file).head
    except (OSError, BrokenPiece):  # gone by now, or `verify` will say what it is
        return 0
    return len(head.token_ids) if head.kind == "block" else 0


def _row(described: dict[str, Any]) -> tuple[str, ...]:
    used = datetime.fromisoformat(described["last_used"]).astimezone()
    return (
        described["model"],
        described["form"],
        str(described["num_files"]),
        str(described["num_tokens"]),
        size_text(described["num_bytes"]),
        f"{used:%Y-%m-%d %H:%M}",
    )


def _problem(folder: CacheFolder, file: PieceFile) -> str | None:
    """What is wrong with the file, in words that follow its path; it is removed then."""
    try:
        folder.read(file)
        return None
    except FileNotFoundError:  # a server has removed it since
        return None
    except BrokenPiece as error:
        problem = str(error)
    except OSError as error:
        problem = f"can't be read: {error.strerror}"
    with _explained(folder):
        folder.remove(file)
    return problem


@contextlib.contextmanager
def _explained(folder: CacheFolder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or folder.path
        raise SetupError(f"{where}: {(error.strerror or str(error)).lower()}") from error


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
