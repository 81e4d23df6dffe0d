"""The models that see, by config.json's model_type."""

from __future__ import annotations

from collections.abc import Mapping

from maxi_mlx.engine.vision import mistral, models, qwen

FAMILIES: Mapping[str, type] = {**models.FAMILIES, **mistral.FAMILIES, **qwen.FAMILIES}
