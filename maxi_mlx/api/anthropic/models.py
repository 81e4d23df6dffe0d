"""The bodies of ``/models`` and ``/models/{id}``, as Anthropic's clients read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from maxi_mlx.api.anthropic.answer_schema import ModelItem, ModelPage
from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.models import ModelEntry

_DEFAULT_LIMIT = 20
_MAX_LIMIT = 1000


def models_body(entries: Sequence[ModelEntry], query: Mapping[str, str]) -> bytes:
    """The page of the list that ``limit``, ``after_id`` and ``before_id`` in the query mean."""
    limit = _limit(query.get("limit"))
    ids = [entry.id for entry in entries]
    after, before = query.get("after_id"), query.get("before_id")
    begin = _place(ids, after, "after_id") + 1 if after else 0
    end = _place(ids, before, "before_id") if before else len(ids)
    if before and not after:
        begin = max(begin, end - limit)
        has_more = begin > 0
    else:
        has_more = end - begin > limit
        end = min(end, begin + limit)
    page = entries[begin:end]
    answer: ModelPage = {
        "data": [_model(entry) for entry in page],
        "has_more": has_more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }
    return to_json(answer)


def model_body(entry: ModelEntry) -> bytes:
    return to_json(_model(entry))


def _model(entry: ModelEntry) -> ModelItem:
    return {
        "type": "model",
        "id": entry.id,
        "display_name": entry.org_name or entry.id,
        "created_at": datetime.fromtimestamp(entry.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": entry.context_length,
        "max_tokens": entry.context_length,
    }


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_LIMIT
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= number <= _MAX_LIMIT:
        raise InvalidRequest(
            f"'limit' must be from 1 to {_MAX_LIMIT}, not {shown(text)!r}.", param="limit"
        )
    return number


def _place(ids: Sequence[str], wanted: str, param: str) -> int:
    if wanted not in ids:
        raise InvalidRequest(
            f"'{param}' is {shown(wanted)!r}, which is no model here.", param=param
        )
    return ids.index(wanted)
