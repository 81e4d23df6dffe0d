"""Second names for models, as Ollama's copies are: kept in a small file, so that they outlive the
server. Nothing of the models themselves is copied.

Any thread may ask and change; a change is written whole or not at all. Blocks on the file system.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from maxi_mlx.catalog.folders import Stamp, stamp_of
from maxi_mlx.catalog.model_files import BrokenFile, read_object
from maxi_mlx.catalog.names import fold
from maxi_mlx.catalog.roots import home_models_dir
from maxi_mlx.core.errors import SetupError

logger = logging.getLogger(__name__)

FILE_NAME = "copies.json"


class Copies:
    """The file holds one JSON object: what each name stands for. It need not be there.

    ``file`` is by default in the project's own folder, which is only looked for when it is asked
    for: whoever makes this may be on the event loop.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._given = file
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._targets: dict[str, str] = {}
        self._problem: BrokenFile | None = None

    def all(self) -> Mapping[str, str]:
        """What each second name stands for, as it was given."""
        with self._lock:
            return dict(self._read())

    def target(self, name: str) -> str | None:
        """What ``name`` stands for, if it is a second name."""
        with self._lock:
            known = self._known(name)
            return self._targets[known] if known is not None else None

    def add(self, name: str, target: str) -> None:
        with self._lock:
            known = self._known(name)
            if self._problem is not None:  # which its owner can mend, but not once it is written
                raise SetupError(
                    f"Second names can't be kept in {self._file}, which {self._problem}: mend or "
                    "remove it."
                )
            self._write({**self._targets, known or name: target})

    def remove(self, name: str) -> bool:
        """Whether there was such a name."""
        with self._lock:
            known = self._known(name)
            if known is None:
                return False
            self._write({each: self._targets[each] for each in self._targets if each != known})
            return True

    def remove_all_of(self, target: str) -> None:
        """The model is gone, and its second names with it."""
        with self._lock:
            kept = {name: other for name, other in self._read().items() if other != target}
            if kept != self._targets:
                self._write(kept)

    @cached_property
    def _file(self) -> Path:
        return self._given or home_models_dir().parent / FILE_NAME

    def _known(self, name: str) -> str | None:
        wanted = fold(name)
        return next((each for each in self._read() if fold(each) == wanted), None)

    def _read(self) -> dict[str, str]:
        try:
            stamp = stamp_of(os.stat(self._file))
        except OSError:
            self._stamp, self._targets, self._problem = None, {}, None
            return self._targets
        if stamp != self._stamp:
            self._problem = None
            try:
                found = read_object(self._file)
            except BrokenFile as error:
                logger.warning("%s %s: no second names are known", self._file, error)
                found, self._problem = {}, error
            self._targets = {name: to for name, to in found.items() if isinstance(to, str)}
            self._stamp = stamp
        return self._targets

    def _write(self, targets: dict[str, str]) -> None:
        new = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(targets, indent=2, ensure_ascii=False) + "\n")
            os.replace(new, self._file)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise SetupError(f"Second names can't be kept in {self._file}: {reason}.") from error
        self._stamp, self._targets = stamp_of(os.stat(self._file)), targets
