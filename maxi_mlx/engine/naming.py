"""Which model a request means: by a name, or by none, among those that can do what it asks.

Lives on the event loop; the catalog reads files, so it is asked on another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import printable
from maxi_mlx.core.errors import InvalidRequest, ModelNotFound
from maxi_mlx.core.models import ABILITIES, ModelEntry, ModelKind
from maxi_mlx.core.request import GenerateRequest, Image
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.model_pool import ModelPool
from maxi_mlx.engine.vision.packages import require_vision_packages

Kinds = Sequence[ModelKind]

WRITERS: Kinds = ("language", "vision")
EMBEDDERS: Kinds = ("embedding",)
SCORERS: Kinds = ("reranker", "embedding")
LISTENERS: Kinds = ("speech",)

_ANY_MODEL = ("", "default")
# OpenAI's name, which some clients have built in.
_ANY_SPEECH_MODEL = "whisper-1"
_KIND_NAMES: Mapping[ModelKind, str] = {
    "language": "a language model",
    "vision": "a vision and language model",
    "embedding": "an embedding model",
    "reranker": "a reranker",
    "speech": "a speech model",
    "unknown": "a model of a kind that isn't known here",
}
_PATHS: Mapping[str, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
    "score": "/v1/score",
    "transcriptions": "/v1/audio/transcriptions",
    "translations": "/v1/audio/translations",
}


class ModelNames:
    """Reads the catalog and the pool; changes neither."""

    def __init__(self, settings: Settings, catalog: Catalog, pool: ModelPool) -> None:
        self._settings = settings
        self._catalog = catalog
        self._pool = pool

    async def resolve(self, name: str, kinds: Kinds, *, adapter: str | None = None) -> ModelEntry:
        """The model that a request means; ``""`` and ``default`` mean the one in use, of the kinds
        that can do what is asked. ``adapter`` is the name of one that goes over it."""
        asked = name.strip().lower()
        if kinds == LISTENERS and asked in (*_ANY_MODEL, _ANY_SPEECH_MODEL):
            entry = await self._speech_model(name)
        elif asked in _ANY_MODEL:
            entry = await self._any_model(kinds)
        else:
            entry = await self._named(name, kinds)
        if entry.problem is not None:
            raise InvalidRequest(f"{entry.id} can't be served: {entry.problem}", param="model")
        if entry.kind not in kinds:
            paths = ", ".join(_PATHS[ability] for ability in ABILITIES.get(entry.kind, ()))
            raise InvalidRequest(
                f"{entry.id} is {_KIND_NAMES[entry.kind]}, which can't do this. It is for "
                f"{paths or 'no endpoint here'}.",
                param="model",
            )
        return entry if adapter is None else await self._adapted(entry, adapter)

    async def _adapted(self, entry: ModelEntry, adapter: str) -> ModelEntry:
        """By a name alone: a client's text is never a path."""
        if entry.base is not None:
            raise InvalidRequest(
                f"'model' is {entry.id}, which has an adapter already, so that 'adapters' can't "
                f"name another. Name the model {entry.base.id}, or leave 'adapters' out.",
                param="adapters",
            )
        try:
            found = await self.find(f"{entry.id}:{adapter}")
        except ModelNotFound:
            raise await self._no_adapter(entry, adapter) from None
        if found.base != entry:
            raise await self._no_adapter(entry, adapter)
        if found.problem is not None:
            raise InvalidRequest(f"{found.id} can't be served: {found.problem}", param="adapters")
        return found

    async def _no_adapter(self, entry: ModelEntry, adapter: str) -> ModelNotFound:
        entries = await asyncio.to_thread(self._catalog.entries)
        names = [repr(e.adapter.name) for e in entries if e.base == entry and e.adapter is not None]
        here = f"There are: {', '.join(names)}." if names else "There is none for it."
        return ModelNotFound(
            f"There is no adapter {printable(adapter)!r} for {entry.id}. {here}", param="adapters"
        )

    async def writer_for(self, request: GenerateRequest) -> ModelEntry:
        """The model that a request is to be written by, which can read its images too."""
        entry = await self.resolve(request.model, WRITERS, adapter=request.adapter)
        await self._check_sees(entry, request.images)
        return entry

    async def _check_sees(self, entry: ModelEntry, images: Sequence[Image]) -> None:
        """Refuses a request's images where its model can't read them. Raises NotInstalled where it
        could, but for a package."""
        if not images:
            return
        if not entry.sees:
            entries = await asyncio.to_thread(self._catalog.entries)
            raise InvalidRequest(
                f"'{images[0].path}' is an image, but {_why_blind(entry)}{_who_sees(entries)}",
                param=images[0].path,
            )
        await asyncio.to_thread(require_vision_packages, entry)

    async def find(self, name: str) -> ModelEntry:
        """The model of that name, whatever it can do."""
        return await asyncio.to_thread(self._catalog.find, name)

    async def pinned_by_settings(self) -> list[str]:
        """The models that are pinned in settings of their own, of those that can be served."""
        entries = await asyncio.to_thread(self._catalog.entries)
        return [e.id for e in entries if e.settings.is_pinned and e.problem is None]

    async def _named(self, name: str, kinds: Kinds) -> ModelEntry:
        try:
            return await self.find(name)
        except ModelNotFound:
            fallback = await self._setting(self._settings.fallback_model, kinds)
            if fallback is None:
                raise
            return fallback

    async def _setting(self, name: str | None, kinds: Kinds) -> ModelEntry | None:
        """The model that the owner named for such requests. One that can't be served counts: the
        owner is to hear of it."""
        if name is None:
            return None
        entry = await self.find(name)
        return entry if entry.kind in kinds or entry.problem is not None else None

    async def _speech_model(self, name: str) -> ModelEntry:
        """A model of that very name, else the one in use, else the first that there is."""
        if name.strip():
            try:
                return await self.find(name)
            except ModelNotFound:
                pass
        try:
            return await self._any_model(LISTENERS)
        except ModelNotFound:
            entries = await asyncio.to_thread(self._catalog.entries)
            servable = [entry for entry in entries if entry.problem is None]
            speech = [entry for entry in servable if entry.kind in LISTENERS]
            if not speech:
                raise
            return speech[0]

    async def _any_model(self, kinds: Kinds) -> ModelEntry:
        named = await self._setting(self._settings.model, kinds)
        if named is not None:
            return named
        used = [slot for slot in self._pool.slots if slot.is_ready and slot.entry.kind in kinds]
        if used:
            return max(used, key=lambda slot: slot.used_at_s).entry
        fallback = await self._setting(self._settings.fallback_model, kinds)
        if fallback is not None:
            return fallback
        entries = await asyncio.to_thread(self._catalog.entries)
        servable = [entry for entry in entries if entry.problem is None and entry.kind in kinds]
        plain = [entry for entry in servable if entry.base is None]
        if len(plain) == 1:
            return plain[0]
        raise ModelNotFound(
            "The request names no model ('default' means the one in use, and none is loaded yet). "
            + _advice(servable, kinds),
            param="model",
        )


def _why_blind(entry: ModelEntry) -> str:
    if entry.kind != "vision":
        return f"{entry.id} reads text only."
    return f"of {entry.id} ({entry.model_type}) only the language part is served, which reads text."


def _who_sees(entries: Sequence[ModelEntry]) -> str:
    names = [entry.id for entry in entries if entry.sees and entry.problem is None]
    if not names:
        return " None of the models on this machine reads images here."
    return f" Images are for {', '.join(names[:5])}."


def _advice(servable: Sequence[ModelEntry], kinds: Kinds) -> str:
    if servable:
        names = ", ".join(entry.id for entry in servable[:5])
        return f"Name one in the field model, such as {names}, or start the server with --model."
    if kinds == WRITERS:
        return "There is none on this machine: get one with `maxi-mlx pull smollm2`."
    wanted = " or ".join(_KIND_NAMES[kind] for kind in kinds)
    return f"There is no model for this on the machine: it takes {wanted}."
