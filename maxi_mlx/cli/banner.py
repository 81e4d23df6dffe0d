"""What `serve` says when it is up: the address, the models, the machine, a first request.

Makes text of values; finds nothing out by itself.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

import maxi_mlx
from maxi_mlx.cli.terminal import Paint, columns, size_text
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.device import DeviceInfo
from maxi_mlx.server.origins import UNSPECIFIED

MAX_MODELS_SHOWN = 10
NO_MODEL = "none yet; `maxi-mlx pull smollm2` fetches a small one, and it appears here at once"


def banner(
    address: str,
    entries: Sequence[ModelEntry],
    *,
    info: DeviceInfo,
    settings: Settings,
    paint: Paint,
) -> str:
    """The whole text, ending with a new line."""
    servable = [entry for entry in entries if entry.problem is None]
    title = paint(f"maxi-mlx {maxi_mlx.__version__}", bold=True)
    everywhere = " and on this machine's network addresses" if _is_everywhere(settings) else ""
    lines = [f"{title} at {paint(address, 'cyan', bold=True)}{everywhere}", ""]
    lines += _labelled("Models", _models(servable, num_others=len(entries) - len(servable)), paint)
    lines += _labelled("Runs on", [_machine(info)], paint)
    if info.advice:
        lines += _labelled("Faster", info.advice, paint)
    if servable:
        chosen = next((e for e in servable if e.id == settings.model), servable[0])
        lines += ["", *_labelled("Try", [curl_line(address, chosen.id, settings=settings)], paint)]
    return "\n".join(lines) + "\n\n"


def curl_line(address: str, model: str, *, settings: Settings) -> str:
    """A command that works as pasted, but for a key, which no log should have."""
    message = {"role": "user", "content": "What is the capital of France?"}
    # Bounded and greedy, as a very small model can go on and on.
    request = {"model": model, "messages": [message], "max_tokens": 50, "temperature": 0}
    body = json.dumps(request, ensure_ascii=False)
    words = ["curl", f"{address}/v1/chat/completions"]
    if settings.tls_cert:
        words.append("-k")
    line = shlex.join(words)
    if settings.api_keys:
        line += f' -H "Authorization: Bearer {_key_word(settings)}"'
    return f"{line} -d {shlex.quote(body)}"


def _key_word(settings: Settings) -> str:
    """What stands for the key: the variable, where that holds this one key and nothing else."""
    is_variable = settings.sources.get("api_keys") == "environment MAXI_MLX_API_KEY"
    return "$MAXI_MLX_API_KEY" if is_variable and len(settings.api_keys) == 1 else "KEY"


def _is_everywhere(settings: Settings) -> bool:
    return settings.host in UNSPECIFIED


def exposure_warning(settings: Settings, *, is_loopback: bool) -> str | None:
    """A sentence where anybody on the network may use the server."""
    if is_loopback or settings.api_keys:
        return None
    return (
        f"WARNING: everyone who can reach {settings.host} port {settings.port} can use this "
        "server and the models on it, as no API key is set. Set MAXI_MLX_API_KEY (or "
        "--api-key-file), or serve on 127.0.0.1."
    )


def _models(servable: Sequence[ModelEntry], *, num_others: int) -> list[str]:
    if not servable:
        lines = [NO_MODEL]
    else:
        lines = columns([_model(entry) for entry in servable[:MAX_MODELS_SHOWN]])
    num_more = len(servable) - MAX_MODELS_SHOWN
    if num_more > 0:
        lines.append(f"… and {num_more} more (maxi-mlx list)")
    if num_others:
        lines.append(f"{num_others} more can't be served; `maxi-mlx list` says why")
    return lines


def _model(entry: ModelEntry) -> tuple[str, str, str, str]:
    return entry.id, entry.kind, entry.quantization or "", size_text(entry.weight_bytes)


def _machine(info: DeviceInfo) -> str:
    name = {"metal": "Metal", "cuda": "CUDA", "cpu": "the CPU"}[info.backend]
    parts = [info.name, size_text(info.memory_bytes), f"MLX {info.mlx_version}"]
    if info.blas:
        parts.append(info.blas.partition(",")[0])  # its threads are for `doctor`
    return f"{name} ({', '.join(parts)})"


def _labelled(label: str, lines: Sequence[str], paint: Paint) -> list[str]:
    heads = [label, *[""] * (len(lines) - 1)]
    return [
        f"  {paint(head.ljust(8), bold=True)} {line}"
        for head, line in zip(heads, lines, strict=True)
    ]
