"""Loads a language model with all that serves it. Runs on the device thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.device_thread import DeviceThread
from maxi_mlx.engine.loading import Loading, Steps

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
    loading: Loading, device_thread: DeviceThread, *, settings: Settings
) -> Steps[LanguageHandle]:
    from maxi_mlx.engine.cache_form import CacheForm
    from maxi_mlx.engine.language_model import adapted_model_steps, language_model_steps
    from maxi_mlx.engine.prompt import PromptBuilder
    from maxi_mlx.engine.scheduler import Scheduler

    form = CacheForm(settings.kv_bits, settings.max_kv_size)
    if isinstance(loading.base, LanguageHandle):
        model = yield from adapted_model_steps(loading, loading.base.model, form)
    else:
        model = yield from language_model_steps(loading, form)
    scheduler = Scheduler(
        model,
        settings.scheduler,
        memory_left_bytes=partial(device_thread.memory_left_bytes, beside=loading.entry),
        prefixes=device_thread.open_prefixes(model, form),
        may_overrun=device_thread.is_idle_but_for,
    )
    return LanguageHandle(model, scheduler, PromptBuilder(model))
