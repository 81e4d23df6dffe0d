"""LM Studio's own API, as far as its clients need it here: the lists of models, and loading."""

from __future__ import annotations

from maxi_mlx.api.lm_studio.answer_schema import LoadState
from maxi_mlx.api.lm_studio.loading import (
    loaded_body,
    parse_load,
    parse_unload,
    unloaded_body,
)
from maxi_mlx.api.lm_studio.models import ListedModel, model_v0, models_v0, models_v1

__all__ = [
    "ListedModel",
    "LoadState",
    "loaded_body",
    "model_v0",
    "models_v0",
    "models_v1",
    "parse_load",
    "parse_unload",
    "unloaded_body",
]
