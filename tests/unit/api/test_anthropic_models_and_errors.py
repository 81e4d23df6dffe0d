"""Lists of models, page by page, and the error envelope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import ModelInfo

from maxi_mlx.api.anthropic import error_body, model_body, models_body
from maxi_mlx.core import errors
from maxi_mlx.core.errors import ContextTooLong, InvalidRequest, MaxiError
from maxi_mlx.core.models import ModelEntry


def entry(name: str, *, org_name: str | None = None) -> ModelEntry:
    return ModelEntry(
        id=name,
        path=Path(name),
        kind="language",
        org_name=org_name,
        source="folders",
        model_type="qwen3",
        architecture=None,
        weight_bytes=1,
        quantization=None,
        context_length=4096,
        created=1_700_000_000,
    )


ENTRIES = [entry(name) for name in "abcde"]

PAGES: dict[str, tuple[dict[str, str], str, bool]] = {
    "all": ({}, "abcde", False),
    "limit": ({"limit": "2"}, "ab", True),
    "a wide limit": ({"limit": "1000"}, "abcde", False),
    "after": ({"limit": "2", "after_id": "b"}, "cd", True),
    "after, the rest": ({"limit": "2", "after_id": "c"}, "de", False),
    "after the last": ({"after_id": "e"}, "", False),
    "before": ({"limit": "2", "before_id": "d"}, "bc", True),
    "before, the first": ({"limit": "2", "before_id": "c"}, "ab", False),
    "between": ({"after_id": "a", "before_id": "d"}, "bc", False),
    "other queries": ({"beta": "true", "lifecycle": "active"}, "abcde", False),
}


@pytest.mark.clients(53, 55)
@pytest.mark.parametrize(("query", "names", "has_more"), PAGES.values(), ids=PAGES)
def test_pages(query: dict[str, str], names: str, has_more: bool) -> None:
    page = json.loads(models_body(ENTRIES, query))
    assert "".join(model["id"] for model in page["data"]) == names
    assert page["has_more"] is has_more
    assert (page["first_id"], page["last_id"]) == ((names[0], names[-1]) if names else (None, None))


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"limit": ""}, {"after_id": "z"}]
)
def test_pages_that_are_not(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        models_body(ENTRIES, query)


@pytest.mark.clients(53)
def test_point_53_a_model_is_what_the_anthropic_package_expects() -> None:
    model = ModelInfo.model_validate_json(model_body(entry("a", org_name="o/a")))
    assert (model.id, model.display_name, model.lifecycle) == ("a", "o/a", "active")
    assert (model.max_input_tokens, model.created_at.timestamp()) == (4096, 1_700_000_000)


TYPES = {
    "InvalidRequest": "invalid_request_error",
    "Unauthorized": "authentication_error",
    "Forbidden": "permission_error",
    "ModelNotFound": "not_found_error",
    "MethodNotAllowed": "invalid_request_error",
    "TooLarge": "request_too_large",
    "UnsupportedMedia": "invalid_request_error",
    "Overloaded": "rate_limit_error",
    "Unavailable": "overloaded_error",
    "NotInstalled": "api_error",
    "EngineFailed": "api_error",
}


@pytest.mark.clients(47)
@pytest.mark.parametrize(("name", "kind"), TYPES.items())
def test_point_47_errors_in_anthropics_envelope(name: str, kind: str) -> None:
    error: MaxiError = getattr(errors, name)("Words.", param="x")
    found: dict[str, Any] = json.loads(error_body(error, request_id="req-1"))
    assert found == {
        "type": "error",
        "error": {"type": kind, "message": "Words."},
        "request_id": "req-1",
    }


def test_a_thread_is_refused_in_the_form_that_the_sdk_goes_on_from() -> None:
    error = InvalidRequest("Words.", code="thread_unsupported_request")
    details = json.loads(error_body(error, request_id=None))["error"]["details"]
    assert details == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


@pytest.mark.clients(41)
def test_point_41_too_long_a_prompt_says_it_in_the_words_that_clients_look_for() -> None:
    error = ContextTooLong.by("Shorten it.", prompt_tokens=50, context_tokens=40)
    message = json.loads(error_body(error, request_id=None))["error"]["message"]
    assert message == "prompt is too long: 50 tokens > 40 maximum. Shorten it."
