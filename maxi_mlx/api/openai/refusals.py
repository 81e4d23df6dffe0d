"""What this version does not do: a request that depends on it is refused, never half-done."""

from __future__ import annotations

from maxi_mlx.api.openai.schema import ChatBody, GenerationBody, ResponsesBody
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import GenerateRequest

# Each is refused with any value but null.
_NOT_SERVED = {
    "audio": "answers are text only",
    "moderation": "there is no moderation model here",
    "web_search_options": "the server does not search the web",
    "chat_template": "only the model's own chat template is used",
}
# Read and checked, but refused until the engine does them; the notes for `fields`.
NOT_YET = {
    "response_format": "only {'type': 'text'} and null: other formats aren't enforced yet",
    "json_schema": "not enforced yet",
    "grammar": "not enforced yet",
    "regex": "not enforced yet",
    "choice": "not enforced yet",
    "guided_json": "not enforced yet",
    "guided_regex": "not enforced yet",
    "guided_choice": "not enforced yet",
    "guided_grammar": "not enforced yet",
    "structured_outputs": "not enforced yet",
    "tools": "unless null, empty, or tool_choice is 'none'",
    "tool_choice": "a required or named tool; null, 'none' and 'auto' do no harm",
    "functions": "the older name of tools; unless function_call is 'none'",
    "function_call": "a named function; null, 'none' and 'auto' do no harm",
    "thinking_budget": "not enforced yet",
    "thinking_token_budget": "not enforced yet",
    "text": "any format but text",
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


def refuse_not_yet(request: GenerateRequest, body: GenerationBody) -> None:
    """What is read, and what the engine doesn't do yet."""
    if request.tools:
        tools = "functions" if getattr(body, "functions", None) else "tools"
        raise InvalidRequest(
            f"'{tools}': tool calls are not served by this version. Leave '{tools}' out, or send "
            f"'{'function_call' if tools == 'functions' else 'tool_choice'}': 'none'.",
            param=tools,
        )
    if request.constraint is not None:
        param = request.constraint.param
        wanted = body.response_format
        kind = f" of type '{wanted.type}'" if wanted is not None else ""
        raise InvalidRequest(
            f"'{param}'{kind} is not served by this version, which can't make the model keep to it. "
            "Leave it out, or ask for the form in the prompt.",
            param=param,
        )
    if request.reasoning.budget_tokens is not None:
        names = ("thinking_budget", "thinking_token_budget")
        given = (name for name in names if getattr(body, name, None) is not None)
        param = next(given, "thinking.budget_tokens")
        raise InvalidRequest(
            f"'{param}': a budget for thinking is not served by this version. Leave it out.",
            param=param,
        )
