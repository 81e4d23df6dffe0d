"""Loads a language model with all that serves it. Runs on the device thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.device_thread import DeviceThread

if TYPE_CHECKING:
    from maxi_mlx.engine.language_model import LanguageModel
    from maxi_mlx.engine.prompt import PromptBuilder
    from maxi_mlx.engine.scheduler import Scheduler


@dataclass(slots=True, eq=False)
class LanguageHandle:
    """A language model that can be used while the pool lends it."""

    model: LanguageModel
    work: Scheduler
    prompts: PromptBuilder


def load_language(
    entry: ModelEntry, device_thread: DeviceThread, *, settings: Settings
) -> LanguageHandle:
    from maxi_mlx.engine.cache_form import CacheForm
    from maxi_mlx.engine.language_model import load_language_model
    from maxi_mlx.engine.prompt import PromptBuilder
    from maxi_mlx.engine.scheduler import Scheduler

    form = CacheForm(settings.kv_bits, settings.max_kv_size)
    model = load_language_model(entry, form)
    scheduler = Scheduler(
        model,
        settings.scheduler,
        memory_left_bytes=device_thread.memory_left_bytes,
        prefixes=device_thread.open_prefixes(model, form),
    )
    return LanguageHandle(model, scheduler, PromptBuilder(model))
