"""LM Studio's own API, as far as its clients need it here: the lists of models."""

from __future__ import annotations

from maxi_mlx.api.lm_studio.models import ListedModel, LoadState, model_v0, models_v0, models_v1

__all__ = ["ListedModel", "LoadState", "model_v0", "models_v0", "models_v1"]
