"""The paths that lead to each handler, in all the spellings that clients use.

Clients join addresses carelessly: with and without ``/v1``, with it twice, with a slash at the end
or two in the middle. All of them arrive, and without a redirect, which many don't follow on POST.
"""

from __future__ import annotations

from aiohttp import web

from maxi_mlx.server import (
    audio,
    cache_stats,
    embeddings,
    generation,
    health,
    kept_responses,
    lm_studio,
    messages,
    models,
    ollama,
    ollama_models,
    ollama_pull,
    responses,
)

# One way to match each text, so that a long path costs no more than its length.
LEAD = "/{lead:(?:/|v1/)*}"
TAIL = "{tail:/*}"
RESPONSE_ID = "{id:[^/]+}"


def spelled(*parts: str) -> str:
    """A route pattern for ``parts`` under any number of slashes and ``v1``."""
    joined = parts[0]
    for place, part in enumerate(parts[1:]):
        joined += f"{{slashes{place}:/+}}{part}"
    return LEAD + joined + TAIL


ROUTES = (
    web.get("/{lead:(?:/|v1/)*(?:v1)?}", health.root, name="root"),
    web.get(spelled("health"), health.health, name="health"),
    web.get(spelled("cache", "stats"), cache_stats.cache_stats),
    web.get(spelled("models"), models.list_models),
    web.get(spelled("models", "{id:.*[^/]}"), models.get_model),
    web.post(spelled("chat", "completions"), generation.chat),
    web.post(spelled("completions"), generation.completion),
    web.post(spelled("embeddings"), embeddings.embed),
    web.post(spelled("rerank"), embeddings.rerank),
    web.post(spelled("score"), embeddings.score),
    web.post(spelled("audio", "transcriptions"), audio.transcription),
    web.post(spelled("audio", "translations"), audio.translation),
    web.post(spelled("messages"), messages.create_message),
    web.post(spelled("messages", "count_tokens"), messages.count_tokens),
    web.post(spelled("responses"), responses.create_response),
    web.post(spelled("responses", "input_tokens"), responses.count_input_tokens),
    web.get(spelled("responses", RESPONSE_ID), kept_responses.get_response),
    web.delete(spelled("responses", RESPONSE_ID), kept_responses.delete_response),
    web.post(spelled("responses", RESPONSE_ID, "cancel"), kept_responses.cancel_response),
    web.get(spelled("responses", RESPONSE_ID, "input_items"), kept_responses.list_input_items),
    # LM Studio's: the lists of models are its own, the rest is OpenAI's under other names.
    web.get(spelled("api", "v0", "models"), lm_studio.list_models_v0),
    web.get(spelled("api", "v0", "models", "{id:.*[^/]}"), lm_studio.get_model_v0),
    web.get(spelled("api", "v1", "models"), lm_studio.list_models_v1),
    web.post(spelled("api", "v0", "chat", "completions"), generation.chat),
    web.post(spelled("api", "v0", "completions"), generation.completion),
    web.post(spelled("api", "v0", "embeddings"), embeddings.embed),
    # Ollama's.
    web.post(spelled("api", "chat"), ollama.chat),
    web.post(spelled("api", "generate"), ollama.generate),
    web.post(spelled("api", "embed"), ollama.embed),
    web.post(spelled("api", "embeddings"), ollama.embeddings),
    web.get(spelled("api", "tags"), ollama_models.tags),
    web.get(spelled("api", "ps"), ollama_models.running),
    web.get(spelled("api", "version"), ollama_models.version),
    web.post(spelled("api", "show"), ollama_models.show),
    web.post(spelled("api", "pull"), ollama_pull.pull),
    web.post(spelled("api", "copy"), ollama_models.refuse_change),
    web.post(spelled("api", "create"), ollama_models.refuse_change),
    web.post(spelled("api", "push"), ollama_models.refuse_change),
    web.delete(spelled("api", "delete"), ollama_models.refuse_change),
)
