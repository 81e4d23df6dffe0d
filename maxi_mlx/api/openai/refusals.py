"""What this version does not do: a request that depends on it is refused, never half-done."""

from __future__ import annotations

from maxi_mlx.api.openai.schema import ChatBody, Format, ResponsesBody
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
    _refuse_tools(body, tools="tools", choice="tool_choice")
    _refuse_tools(body, tools="functions", choice="function_call")
    for modality in body.modalities or ():
        if modality != "text":
            raise InvalidRequest(
                f"'modalities' asks for {modality[:40]!r}, but answers are text only.",
                param="modalities",
            )


def refuse_unserved_responses(body: ResponsesBody) -> None:
    """The same for the fields that only the Responses API's shape has."""
    _refuse_given(body, _NOT_KEPT)
    if body.text is not None:
        refuse_format(body.text.format, "text.format")


def refuse_format(wanted: Format | None, param: str) -> None:
    if wanted is None or wanted.type == "text":
        return
    if wanted.type is None:
        raise InvalidRequest(f"'{param}.type' is missing.", param=f"{param}.type")
    if wanted.type in ("json_object", "json_schema"):
        raise InvalidRequest(
            f"'{param}' of type '{wanted.type}' is not served by this version, which can't make "
            "the model keep to it. Leave it out, or ask for JSON in the prompt.",
            param=param,
        )
    raise InvalidRequest(
        f"'{param}.type' must be 'text', not {wanted.type[:40]!r}.", param=f"{param}.type"
    )


def _refuse_given(body: ChatBody, reasons: dict[str, str]) -> None:
    for name, reason in reasons.items():
        if getattr(body, name) is not None:
            raise InvalidRequest(f"'{name}' is not served: {reason}.", param=name)


def _refuse_tools(body: ChatBody, *, tools: str, choice: str) -> None:
    """Tools with the choice "none" only describe what the model may not use, and are left out."""
    chosen = getattr(body, choice)
    if chosen == "none":
        return
    if getattr(body, tools):
        raise InvalidRequest(
            f"'{tools}': tool calls are not served by this version. Leave '{tools}' out, or send "
            f"'{choice}': 'none'.",
            param=tools,
        )
    if chosen not in (None, "auto"):
        raise InvalidRequest(
            f"'{choice}' demands a tool call, but there are no '{tools}' and this version serves "
            "none.",
            param=choice,
        )
