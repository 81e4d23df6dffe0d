"""What rows work with that bring models of their own, or none: they run once, whatever models the
others run on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rows.sizes import Sizes

NAME = "models-of-their-own"  # where others have their model's


@dataclass(frozen=True, slots=True)
class Apart:
    """``tokenizer_source``: a model's folder, of which tiny models get the tokenizer."""

    sizes: Sizes
    tokenizer_source: Path
