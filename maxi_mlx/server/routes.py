"""The paths that lead to each handler, in all the spellings that clients use.

Clients join addresses carelessly: with and without ``/v1``, with it twice, with a slash at the end
or two in the middle. All of them arrive, and without a redirect, which many don't follow on POST.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

from maxi_mlx.api.anthropic import operations as anthropic
from maxi_mlx.api.jina import operations as jina
from maxi_mlx.api.lm_studio import operations as studio
from maxi_mlx.api.ollama import operations as ollamas
from maxi_mlx.api.openai import operations as openai
from maxi_mlx.api.openapi import Documented
from maxi_mlx.api.openapi.operation import Operation, Tag
from maxi_mlx.api.responses import operations as response
from maxi_mlx.server import (
    audio,
    browser,
    cache_stats,
    embeddings,
    generation,
    health,
    kept_responses,
    lm_studio,
    messages,
    metrics,
    models,
    ollama,
    ollama_changes,
    ollama_models,
    ollama_pull,
    operations,
    responses,
    status,
)
from maxi_mlx.server.openapi import openapi as send_openapi

# One way to match each text, so that a long path costs no more than its length.
LEAD = "/{lead:(?:/|v1/)*}"
TAIL = "{tail:/*}"
ROOT = "/{lead:(?:/|v1/)*(?:v1)?}"
# The log's and the metrics' words for the APIs; what the server says of itself is of none.
PROTOCOLS: Mapping[Tag, str] = {
    "OpenAI": "openai",
    "Responses": "responses",
    "Anthropic": "anthropic",
    "Rerank": "jina",
    "Ollama": "ollama",
    "LM Studio": "lm_studio",
}
PARAMETERS = {
    "{model}": "{id:.*[^/]}",
    "{response_id}": "{id:[^/]+}",
    "{request_id}": "{id:[^/]+}",
    "{file}": "{file:[^/]+}",
}


@dataclass(frozen=True, slots=True)
class Route:
    """A path as clients are told of it, and where it leads. Those with a ``name`` are known by it
    to the middlewares."""

    method: str
    path: str
    handler: Handler
    operation: Operation
    name: str | None = None

    @property
    def definition(self) -> web.RouteDef:
        pattern = spelled(self.path) if self.path != "/" else ROOT
        if self.method == "GET":  # and HEAD
            return web.get(pattern, self.handler, name=self.name)
        return web.route(self.method, pattern, self.handler, name=self.name)

    @property
    def protocol(self) -> str | None:
        return PROTOCOLS.get(self.operation.tag)


def spelled(path: str) -> str:
    """A route pattern for ``path`` under any number of slashes and ``v1``."""
    parts = [PARAMETERS.get(part, part) for part in path.removeprefix("/v1").split("/")[1:]]
    joined = parts[0]
    for place, part in enumerate(parts[1:]):
        joined += f"{{slashes{place}:/+}}{part}"
    return LEAD + joined + TAIL


TABLE = (
    Route("GET", "/", browser.root, operations.ROOT, "root"),
    Route("GET", "/page/{file}", browser.page_file, operations.PAGE_FILE, "page"),
    Route("GET", "/health", health.health, operations.HEALTH, "health"),
    Route("GET", "/health/live", health.live, operations.LIVE, "live"),
    Route("GET", "/health/ready", health.ready, operations.READY, "ready"),
    Route("GET", "/metrics", metrics.metrics, operations.METRICS, "metrics"),
    Route("GET", "/openapi.json", send_openapi, operations.OPENAPI),
    Route("GET", "/v1/cache/stats", cache_stats.cache_stats, operations.CACHE_STATS),
    Route("GET", "/v1/status", status.status, operations.STATUS, "status"),
    Route("GET", "/v1/status/events", status.status_events, operations.STATUS_EVENTS),
    Route(
        "POST",
        "/v1/status/requests/{request_id}/cancel",
        status.cancel_request,
        operations.CANCEL_REQUEST,
    ),
    Route("GET", "/v1/models", models.list_models, openai.MODELS),
    Route("GET", "/v1/models/{model}", models.get_model, openai.MODEL),
    Route("POST", "/v1/chat/completions", generation.chat, openai.CHAT),
    Route("POST", "/v1/completions", generation.completion, openai.COMPLETION),
    Route("POST", "/v1/embeddings", embeddings.embed, openai.EMBEDDINGS),
    Route("POST", "/v1/rerank", embeddings.rerank, jina.RERANK),
    Route("POST", "/v1/score", embeddings.score, jina.SCORE),
    Route("POST", "/v1/audio/transcriptions", audio.transcription, openai.TRANSCRIPTION),
    Route("POST", "/v1/audio/translations", audio.translation, openai.TRANSLATION),
    Route("POST", "/v1/messages", messages.create_message, anthropic.MESSAGE),
    Route("POST", "/v1/messages/count_tokens", messages.count_tokens, anthropic.COUNT),
    Route("POST", "/v1/responses", responses.create_response, response.CREATE),
    Route("POST", "/v1/responses/input_tokens", responses.count_input_tokens, response.COUNT),
    Route("POST", "/v1/responses/compact", kept_responses.refuse_compact, response.COMPACT),
    Route("GET", "/v1/responses/{response_id}", kept_responses.get_response, response.GET),
    Route("DELETE", "/v1/responses/{response_id}", kept_responses.delete_response, response.DELETE),
    Route(
        "POST",
        "/v1/responses/{response_id}/cancel",
        kept_responses.cancel_response,
        response.CANCEL,
    ),
    Route(
        "GET",
        "/v1/responses/{response_id}/input_items",
        kept_responses.list_input_items,
        response.INPUT_ITEMS,
    ),
    # LM Studio's: the lists of models are its own, the rest is OpenAI's under other names.
    Route("GET", "/api/v0/models", lm_studio.list_models_v0, studio.OLDER_MODELS),
    Route("GET", "/api/v0/models/{model}", lm_studio.get_model_v0, studio.OLDER_MODEL),
    Route("GET", "/api/v1/models", lm_studio.list_models_v1, studio.NEWER_MODELS),
    Route("POST", "/api/v1/models/load", lm_studio.load_model, studio.LOAD),
    Route("POST", "/api/v1/models/unload", lm_studio.unload_model, studio.UNLOAD),
    Route("POST", "/api/v0/chat/completions", generation.chat, studio.CHAT),
    Route("POST", "/api/v0/completions", generation.completion, studio.COMPLETION),
    Route("POST", "/api/v0/embeddings", embeddings.embed, studio.EMBEDDINGS),
    # Ollama's.
    Route("POST", "/api/chat", ollama.chat, ollamas.CHAT),
    Route("POST", "/api/generate", ollama.generate, ollamas.GENERATE),
    Route("POST", "/api/embed", ollama.embed, ollamas.EMBED),
    Route("POST", "/api/embeddings", ollama.embeddings, ollamas.OLDER_EMBED),
    Route("GET", "/api/tags", ollama_models.tags, ollamas.TAGS),
    Route("GET", "/api/ps", ollama_models.running, ollamas.LOADED),
    Route("GET", "/api/version", ollama_models.version, ollamas.VERSION),
    Route("POST", "/api/show", ollama_models.show, ollamas.SHOW),
    Route("POST", "/api/pull", ollama_pull.pull, ollamas.PULL),
    Route("POST", "/api/copy", ollama_changes.copy, ollamas.COPY),
    Route("DELETE", "/api/delete", ollama_changes.delete, ollamas.DELETE),
    Route("POST", "/api/create", ollama_changes.refuse, ollamas.CHANGE),
    Route("POST", "/api/push", ollama_changes.refuse, ollamas.CHANGE),
)

ROUTES = tuple(route.definition for route in TABLE)
DOCUMENTED = tuple(
    Documented(method=route.method, path=route.path, operation=route.operation) for route in TABLE
)
