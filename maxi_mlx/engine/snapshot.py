"""What is said of the models in memory: the pool's slots beside the device's last figures."""

from __future__ import annotations

from collections.abc import Sequence

from maxi_mlx.engine.device_thread import DeviceReading
from maxi_mlx.engine.model_slot import Slot
from maxi_mlx.engine.status import LoadedModel
from maxi_mlx.kv_cache.counts import CacheStats
from maxi_mlx.kv_cache.disk.tier import DiskTier, DiskUsage


def loaded_models(
    slots: Sequence[Slot], reading: DeviceReading, disk: DiskTier | None, *, now_s: float
) -> tuple[LoadedModel, ...]:
    return tuple(_model(slot, reading, disk, now_s=now_s) for slot in slots)


def _model(
    slot: Slot, reading: DeviceReading, disk: DiskTier | None, *, now_s: float
) -> LoadedModel:
    figures = reading.models.get(slot.entry)
    usage = DiskUsage(0, 0)
    if disk is not None and figures is not None and figures.namespace is not None:
        usage = disk.usage(figures.namespace)
    return LoadedModel(
        id=slot.entry.id,
        path=str(slot.entry.path),
        state="ready" if slot.is_ready else "loading",
        loaded_s=None if slot.loaded_at_s is None else max(now_s - slot.loaded_at_s, 0.0),
        weight_bytes=slot.entry.weight_bytes,
        context_length=slot.entry.context_length or 0,
        num_running=figures.num_running if figures else 0,
        num_waiting=figures.num_waiting if figures else 0,
        kv_cache_bytes=figures.kv_cache_bytes if figures else 0,
        prefill_tokens=figures.num_prefill_tokens if figures else 0,
        prefixes=figures.prefixes if figures else CacheStats(),
        disk_files=usage.num_files,
        disk_bytes=usage.num_bytes,
        expires_in_s=slot.expires_in_s(now_s),
        is_pinned=slot.hold == "pinned",
        base=slot.entry.base.id if slot.entry.base is not None else None,
    )
