"""Loads a Whisper model with all that serves it; imports nothing of it before that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxi_mlx.engine.device_thread import DeviceThread
from maxi_mlx.engine.installation import require_add_on
from maxi_mlx.engine.loading import Loading, Steps

if TYPE_CHECKING:
    from maxi_mlx.engine.speech.speech_model import SpeechModel
    from maxi_mlx.engine.speech.speech_work import SpeechWork

EXTRA = "audio"
_MODULES = ("av", "mlx_whisper", "more_itertools", "numba", "scipy", "tiktoken")


def import_speech_packages() -> None:
    """Takes seconds the first time: for a worker thread, so that the device thread need not wait.
    Raises NotInstalled with what to type."""
    require_add_on(EXTRA, _MODULES, what="Speech")
    from maxi_mlx.engine.speech import speech_work  # noqa: F401


@dataclass(slots=True, eq=False)
class SpeechHandle:
    """A speech model that can be used while the pool lends it."""

    model: SpeechModel
    work: SpeechWork


def load_speech(loading: Loading, _device_thread: DeviceThread) -> Steps[SpeechHandle]:
    from maxi_mlx.engine.speech.speech_model import speech_model_steps
    from maxi_mlx.engine.speech.speech_work import SpeechWork

    model = yield from speech_model_steps(loading)
    return SpeechHandle(model, SpeechWork(model))
