"""A process that writes pieces until it is done: FOLDER LIMIT NAMESPACE FIRST LENGTH SIZE.

Prints the number of pieces that are on disk, a line each time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.kv_cache.disk.pieces import chain, running, write_all

folder, limit_bytes, namespace, first, length, size = sys.argv[1:]
with running(Path(folder), int(limit_bytes)) as tier:
    pieces = chain(int(length), namespace=namespace, first=int(first), num_bytes=int(size))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number, kept in enumerate(pieces, start=1):
        write_all(tier, [kept], namespace=namespace)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    assert tier.stats.fault is None, tier.stats.fault
