"""Small models for tests: random ones of every cache class, and one trained on known dialogues.

build_model(folder, "gemma3")   writes a random model that mlx_lm.load() reads
FAMILIES                        the names it knows
tests.models.scripted           the dialogues that the trained model answers word for word
"""

from tests.models.families import FAMILIES, Family, family_named
from tests.models.folder import build_model

__all__ = ["FAMILIES", "Family", "build_model", "family_named"]
