"""What server a client is to use, and which of its models: asked of the server where it runs, else
read off the folders that it would serve.

Blocks on the network and the file system.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.roots import default_roots
from maxi_mlx.cli.clients.guide import Server
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings

ANSWER_TIMEOUT_S = 5.0
WRITES_TEXT = ("language", "vision")
WRITER_TYPES = ("llm", "vlm")  # as LM Studio's list calls them
NO_SERVER = (
    "no server answers at {url}; start one with `maxi-mlx serve`, or say where it is by --url"
)


def find_server(
    settings: Settings, *, url: str | None, api_key: str | None, model: str | None
) -> Server:
    """Raises SetupError where no model can be told."""
    from maxi_mlx.server.address import THIS_MACHINE, served_at

    key = api_key or (settings.api_keys[0] if settings.api_keys else None)
    if url is not None:
        return _asked(checked(url), key, model)
    running = served_at(settings.host, settings.port)
    if running is not None:
        return _asked(running, key, model)
    scheme = "https" if settings.tls_cert is not None else "http"
    host = THIS_MACHINE.get(settings.host, settings.host)
    name = f"[{host}]" if ":" in host else host
    return _read_off(settings, f"{scheme}://{name}:{settings.port}", key, model)


def checked(url: str) -> str:
    """Without ``/v1`` and slashes at its end. Raises SetupError for what is no address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"flag --url: '{url}' is no address such as http://127.0.0.1:11434")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _asked(url: str, key: str | None, name: str | None) -> Server:
    if name is not None:
        found = _model(url, name, key)
        if found["type"] not in WRITER_TYPES:
            raise _no_writer(found["id"])
    else:
        found = _usual(url, key)
    return Server(
        url=url,
        api_key=key,
        model=found["id"],
        context_length=found.get("max_context_length"),
        takes_tools="tool_use" in found["capabilities"],
        sees="vision" in found["capabilities"],
    )


def _usual(url: str, key: str | None) -> Any:
    """What a request that names no model gets; of several that are loaded, the first."""
    settings = _get(url, "/health", key=key).get("settings", {})
    models = [m for m in _get(url, "/api/v0/models", key=key)["data"] if m["type"] in WRITER_TYPES]
    named = [settings.get(field, {}).get("value") for field in ("model", "fallback_model")]
    loaded = [model["id"] for model in models if model["state"] == "loaded"]
    for name in (named[0], *loaded[:1], named[1]):
        if name is not None:
            found = _model(url, name, key)
            if found["type"] in WRITER_TYPES:
                return found
    only = _only([model["id"] for model in models])
    return next(model for model in models if model["id"] == only)


def _model(url: str, name: str, key: str | None) -> Any:
    return _get(url, f"/api/v0/models/{quote(name, safe='/')}", key=key)


def _no_writer(name: str) -> SetupError:
    return SetupError(f"{name} does not chat, as a client's model has to; name another by --model")


def _only(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if not names:
        raise SetupError(
            "there is no model that chats yet: `maxi-mlx pull smollm2` fetches a small one"
        )
    shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
    raise SetupError(f"there are several models; choose one by --model: {shown}")


def _get(url: str, path: str, *, key: str | None) -> Any:
    request = urllib.request.Request(url + path)
    if key is not None:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as response:
            if not (response.headers["Server"] or "").startswith("maxi-mlx/"):
                raise SetupError(f"another program than maxi-mlx answers at {url}")
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise SetupError(_refusal(url, error)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise SetupError(f"{NO_SERVER.format(url=url)} ({reason})") from error


def _refusal(url: str, error: urllib.error.HTTPError) -> str:
    with error:
        if not (error.headers["Server"] or "").startswith("maxi-mlx/"):
            return f"another program than maxi-mlx answers at {url}"
        if error.code == 401:
            return (
                f"the server at {url} wants its API key; give it by --api-key or MAXI_MLX_API_KEY"
            )
        try:
            return str(json.load(error)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            return f"the server at {url} answers {error.code} {error.reason}"


def _read_off(settings: Settings, url: str, key: str | None, name: str | None) -> Server:
    from maxi_mlx.server.lm_studio import takes_tools

    catalog = Catalog(default_roots(settings.model_dirs), settings.models)
    entry = _entry(catalog, name or settings.model)
    if entry.problem is not None:
        raise SetupError(f"{entry.id} can't be served: {entry.problem}")
    if entry.kind not in WRITES_TEXT:
        raise _no_writer(entry.id)
    return Server(
        url=url,
        api_key=key,
        model=entry.id,
        context_length=entry.context_length,
        takes_tools=takes_tools(entry),
        sees=entry.sees,
    )


def _entry(catalog: Catalog, name: str | None) -> ModelEntry:
    if name is None:
        entries = catalog.entries()
        name = _only(
            [printable(e.id) for e in entries if e.problem is None and e.kind in WRITES_TEXT]
        )
    return catalog.find(name)
