"""The bodies about responses that are kept: the response, its input, its deletion, a count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.api.responses.items import RawItem
from maxi_mlx.core.errors import InvalidRequest

MAX_ITEMS = 100
DEFAULT_ITEMS = 20


def input_items_body(
    items: Sequence[RawItem], *, limit: str | None, order: str | None, after: str | None
) -> bytes:
    """One page of ``items``, which are in the order in which they were said. The other three are
    the query's words as they came. Raises `InvalidRequest`."""
    if order not in (None, "asc", "desc"):
        raise InvalidRequest(f"'order' must be 'asc' or 'desc', not {order[:40]!r}.", param="order")
    size = _limit(limit)
    found = list(items) if order == "asc" else list(reversed(items))
    if after:
        places = [place for place, item in enumerate(found) if item["id"] == after]
        if not places:
            raise InvalidRequest(
                f"'after' is {after[:80]!r}, which is none of this response's items.", param="after"
            )
        found = found[places[0] + 1 :]
    page = found[:size]
    return to_json(
        {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": len(found) > size,
        }
    )


def deleted_body(id: str) -> bytes:
    return to_json({"id": id, "object": "response", "deleted": True})


def input_tokens_body(num_tokens: int) -> bytes:
    return to_json({"object": "response.input_tokens", "input_tokens": num_tokens})


def object_body(response: Any) -> bytes:
    return to_json(response)


def _limit(word: str | None) -> int:
    if word is None:
        return DEFAULT_ITEMS
    if word.isascii() and word.isdigit() and len(word) < 9 and 1 <= int(word) <= MAX_ITEMS:
        return int(word)
    raise InvalidRequest(
        f"'limit' must be a whole number from 1 to {MAX_ITEMS}, not {word[:40]!r}.", param="limit"
    )
