"""What this version does not do: a request that depends on it is refused, never half-done."""

from __future__ import annotations

from maxi_mlx.api.openai.schema import ChatBody, ResponsesBody
from maxi_mlx.core.errors import InvalidRequest

# Each is refused with any value but null.
_NOT_SERVED = {
    "audio": "answers are text only",
    "moderation": "there is no moderation model here",
    "web_search_options": "the server does not search the web",
    "chat_template": "only the model's own chat template is used",
}
_NOT_KEPT = {
    "previous_response_id": "answers are not kept; send the whole conversation as 'input'",
    "conversation": "conversations are not kept; send the whole conversation as 'input'",
}


def refuse_unserved(body: ChatBody) -> None:
    """What a chat may ask for and this version can't give."""
    _refuse_given(body, _NOT_SERVED)
    for modality in body.modalities or ():
        if modality != "text":
            raise InvalidRequest(
                f"'modalities' asks for {modality[:40]!r}, but answers are text only.",
                param="modalities",
            )


def refuse_unserved_responses(body: ResponsesBody) -> None:
    """The same for the fields that only the Responses API's shape has."""
    _refuse_given(body, _NOT_KEPT)


def _refuse_given(body: ChatBody, reasons: dict[str, str]) -> None:
    for name, reason in reasons.items():
        if getattr(body, name) is not None:
            raise InvalidRequest(f"'{name}' is not served: {reason}.", param=name)
