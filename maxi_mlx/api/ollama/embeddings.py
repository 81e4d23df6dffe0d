"""``/api/embed`` and the older ``/api/embeddings``: a body to an `EmbeddingRequest`, and back."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from maxi_mlx.api.ollama.keep_alive import checked_keep_alive
from maxi_mlx.api.ollama.pieces import nanoseconds
from maxi_mlx.api.ollama.schema import EmbedBody, EmbeddingsBody
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.embeddings import check_count, checked_dimensions, checked_model
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.embedding import EmbeddingRequest, EmbeddingResult
from maxi_mlx.core.errors import InvalidRequest

_EMBED = msgspec.json.Decoder(EmbedBody)
_EMBEDDINGS = msgspec.json.Decoder(EmbeddingsBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedCall:
    """``request`` without inputs only loads its model, or unloads it. ``is_older``: it came
    to ``/api/embeddings``, whose answer has one vector and nothing else."""

    request: EmbeddingRequest
    keep_alive_s: float | None = None
    is_older: bool = False


def parse_embed(body: bytes, *, request_id: str) -> EmbedCall:
    fields = decode(body, _EMBED)
    if fields.input is None:
        raise InvalidRequest("'input' is missing: send a text, or a list of texts.", param="input")
    inputs = [fields.input] if isinstance(fields.input, str) else fields.input
    check_count(len(inputs), "input")
    if inputs == [""]:
        inputs = []
    for index, text in enumerate(inputs):
        if not text:
            param = f"input[{index}]"
            raise InvalidRequest(f"'{param}' is empty; there is nothing to embed.", param=param)
    request = EmbeddingRequest(
        id=request_id,
        model=checked_model(fields.model),
        inputs=tuple(inputs),
        dimensions=checked_dimensions(fields.dimensions),
        truncate=fields.truncate is not False,
    )
    return EmbedCall(request=request, keep_alive_s=checked_keep_alive(fields.keep_alive))


def parse_embeddings(body: bytes, *, request_id: str) -> EmbedCall:
    fields = decode(body, _EMBEDDINGS)
    request = EmbeddingRequest(
        id=request_id,
        model=checked_model(fields.model),
        inputs=(fields.prompt,) if fields.prompt else (),
        truncate=True,
    )
    keep_alive_s = checked_keep_alive(fields.keep_alive)
    return EmbedCall(request=request, keep_alive_s=keep_alive_s, is_older=True)


def embed_body(call: EmbedCall, result: EmbeddingResult | None, *, total_s: float) -> bytes:
    """``result`` is None where there was nothing to embed."""
    rows: list[list[float]] = [] if result is None else result.rows.tolist()
    if call.is_older:
        return to_json({"embedding": rows[0] if rows else []})
    return to_json(
        {
            "model": call.request.model if result is None else result.model,
            "embeddings": rows,
            "total_duration": nanoseconds(total_s),
            "load_duration": nanoseconds(0.0 if result is None else result.load_s),
            "prompt_eval_count": 0 if result is None else result.prompt_tokens,
        }
    )
