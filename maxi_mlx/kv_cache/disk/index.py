"""Which pieces lie on disk, by name and size, and which of them go first. Touches no file.

A machine; `Stock` owns one.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

# Another process may write parent and child while this one looks through the folders: it can see
# the child alone. So a piece counts as an orphan only some time after it was written.
ORPHAN_AGE_NS = 60 * 10**9


@dataclass(frozen=True, slots=True)
class PieceFile:
    """``root`` is the root key of its namespace, and its folder's name. ``used_ns`` is the time of
    its last use, since 1970."""

    root: str
    key: str
    parent: str
    num_bytes: int
    used_ns: int


class FileIndex:
    """Keys are unique over all namespaces, since the root's is in every key. Other threads than
    the owner's may ask ``in``, and read `num_bytes` and `usage`."""

    def __init__(self, files: Iterable[PieceFile] = ()) -> None:
        self._files: dict[str, PieceFile] = {}
        self._num_files: Counter[str] = Counter()
        self._num_bytes: Counter[str] = Counter()
        self.num_bytes = 0
        for file in files:
            self.add(file)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, key: str) -> bool:
        return key in self._files

    def get(self, key: str) -> PieceFile | None:
        return self._files.get(key)

    def usage(self, root: str) -> tuple[int, int]:
        """Files and bytes of one namespace."""
        return self._num_files[root], self._num_bytes[root]

    def add(self, file: PieceFile) -> None:
        self.remove(file.key)
        self._files[file.key] = file
        self._count(file, 1)

    def remove(self, key: str) -> None:
        file = self._files.pop(key, None)
        if file is not None:
            self._count(file, -1)

    def use(self, key: str, used_ns: int) -> PieceFile | None:
        """Notes the time, and gives the file with it."""
        file = self._files.get(key)
        if file is not None:
            file = self._files[key] = replace(file, used_ns=used_ns)
        return file

    def chains(self, root: str) -> list[PieceFile]:
        """The namespace's pieces that hang together with the root, parents before children."""
        children = self._children()
        found: list[PieceFile] = list(children.get(root, ()))
        for file in found:  # grows as it goes
            found.extend(children.get(file.key, ()))
        return found

    def orphans(self, now_ns: int) -> list[PieceFile]:
        """Pieces that no chain leads to, so that nothing can ever be made of them."""
        children = self._children()
        reached = [root for root in children if root not in self._files and self._is_root(root)]
        for key in reached:
            reached.extend(file.key for file in children.get(key, ()))
        chained = set(reached)
        return [
            file
            for file in self._files.values()
            if file.key not in chained and now_ns - file.used_ns > ORPHAN_AGE_NS
        ]

    def victims(
        self, num_bytes: int, *, now_ns: int, but_not: str | None = None
    ) -> list[PieceFile]:
        """Files of so many bytes together, or of fewer where there are no more, in the order in
        which they may go: orphans, then what was not used for longest and has no children left.
        The piece ``but_not``, and so all that it hangs on, stays."""
        chosen: list[PieceFile] = []
        order = self._by_worth(now_ns, but_not)
        while num_bytes > 0 and (file := next(order, None)):
            chosen.append(file)
            num_bytes -= file.num_bytes
        return chosen

    def _by_worth(self, now_ns: int, but_not: str | None) -> Iterator[PieceFile]:
        orphans = {file.key for file in self.orphans(now_ns)}
        num_children = Counter(file.parent for file in self._files.values())
        if but_not is not None:
            num_children[but_not] += 1

        def entry(file: PieceFile) -> tuple[bool, int, str]:
            return file.key not in orphans, file.used_ns, file.key

        heap = [entry(file) for file in self._files.values() if not num_children[file.key]]
        heapq.heapify(heap)
        while heap:
            file = self._files[heapq.heappop(heap)[2]]
            yield file
            num_children[file.parent] -= 1
            parent = self._files.get(file.parent)
            if parent is not None and not num_children[parent.key]:
                heapq.heappush(heap, entry(parent))

    def _children(self) -> dict[str, list[PieceFile]]:
        children: dict[str, list[PieceFile]] = defaultdict(list)
        for file in self._files.values():
            children[file.parent].append(file)
        return children

    def _is_root(self, key: str) -> bool:
        return self._num_files[key] > 0

    def _count(self, file: PieceFile, sign: int) -> None:
        self.num_bytes += sign * file.num_bytes
        self._num_files[file.root] += sign
        self._num_bytes[file.root] += sign * file.num_bytes
