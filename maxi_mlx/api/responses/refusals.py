"""What this version does not do: a request that depends on it is refused, never half-done."""

from __future__ import annotations

from collections.abc import Mapping

from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.api.responses.schema import ResponseBody
from maxi_mlx.core.errors import InvalidRequest

MAX_METADATA = 16
MAX_METADATA_KEY = 64  # characters
MAX_METADATA_VALUE = 512

# Each is refused with any value but null.
_NOT_SERVED = {
    "conversation": "conversations are not kept; go on from a response by previous_response_id",
    "prompt": "there are no stored prompts here; send instructions and input",
    "moderation": "there is no moderation model here",
    "context_management": "nothing is compacted here; truncation 'auto' leaves out old turns",
    "chat_template": "only the model's own chat template is used",
}


def refuse_unserved(body: ResponseBody) -> None:
    for name, reason in _NOT_SERVED.items():
        if getattr(body, name) is not None:
            raise InvalidRequest(f"'{name}' is not served: {reason}.", param=name)
    if body.n not in (None, 1):
        raise InvalidRequest(f"'n' must be 1, not {body.n}: a response is one answer.", param="n")
    if body.truncation not in (None, "auto", "disabled"):
        raise InvalidRequest(
            f"'truncation' must be 'auto' or 'disabled', not {shown(body.truncation)!r}.",
            param="truncation",
        )


def check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidRequest(
            f"'metadata' has {len(metadata)} keys; at most {MAX_METADATA} are allowed.",
            param="metadata",
        )
    for key, value in metadata.items():
        if len(key) > MAX_METADATA_KEY or len(value) > MAX_METADATA_VALUE:
            raise InvalidRequest(
                f"'metadata' has a key or value that is too long ({shown(key)!r}): keys have at "
                f"most {MAX_METADATA_KEY} characters, values {MAX_METADATA_VALUE}.",
                param="metadata",
            )
