"""Every request field the Messages API knows, and what becomes of it here.

The table of `maxi_mlx.api.openai.fields`, for this API; a field in no table is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxi_mlx.api.openai.fields import Field, Treatment


def _field(treatment: Treatment, note: str) -> Field:
    return Field(treatment, note)


# Read by both endpoints.
_PROMPT_FIELDS: Mapping[str, Field] = {
    "model": _field("honoured", "a model's id; null, absent or empty: the engine's choice"),
    "messages": _field(
        "honoured",
        "roles user, assistant, system; text and images; a last message of the assistant's is how "
        "the answer begins",
    ),
    "system": _field("honoured", "a string or text blocks"),
    "tools": _field(
        "honoured",
        "tools of your own (type 'custom' or none; strict too). Those of Anthropic's are left out, "
        "as they run there or have a form that Claude alone was taught; a request with no others "
        "is refused",
    ),
    "tool_choice": _field(
        "honoured",
        "auto, any, tool, none (the tools are left out), each with disable_parallel_tool_use",
    ),
    "thinking": _field(
        "honoured",
        "enabled with budget_tokens (from 1, below max_tokens), adaptive and between_tools (no "
        "budget), disabled; absent: as the model's template has it. display 'omitted' hides the "
        "thought, and its signature brings it back",
    ),
    "output_config": _field(
        "honoured", "effort goes to the chat template; format is a json_schema, enforced"
    ),
    "output_format": _field("honoured", "the older name of output_config.format"),
    "mcp_servers": _field("refused", "any but an empty list: this server calls no others"),
    "cache_control": _field("ignored", "shared prefixes are found by their tokens, without marks"),
    "context_management": _field("ignored", "the history is read as it is sent"),
    "compaction": _field("ignored", "the history is read as it is sent"),
    "billing_policy": _field("ignored", "nobody is billed"),
    "speed": _field("ignored", "there is one speed"),
    "betas": _field("ignored", "any beta is fine, here and in the header"),
    "user_profile_id": _field("ignored", "nobody is watched"),
    "workspace_id": _field("ignored", "there is one workspace"),
}

COUNT_FIELDS: Mapping[str, Field] = _PROMPT_FIELDS

MESSAGES_FIELDS: Mapping[str, Field] = {
    **_PROMPT_FIELDS,
    "max_tokens": _field(
        "honoured",
        "required; 0 reads the prompt into the cache and writes nothing; beyond the context: as "
        "much as is left",
    ),
    "stop_sequences": _field("honoured", "up to 64, of 1 to 1000 characters each"),
    "stream": _field("honoured", "server-sent events"),
    "temperature": _field("honoured", "0 to 2; 0 is greedy"),
    "top_p": _field("honoured", "above 0, at most 1"),
    "top_k": _field("honoured", "0 and -1: off"),
    "container": _field("refused", "any but null: no code runs here"),
    "thread": _field(
        "refused",
        "any but null and false: conversations aren't kept; the error tells the SDK's tool runner "
        "to go on without",
    ),
    "metadata": _field("ignored", "nothing is stored"),
    "service_tier": _field("ignored", "there is one tier"),
    "inference_geo": _field("ignored", "there is one place"),
    "diagnostics": _field("ignored", "usage tells what the cache had"),
    "fallbacks": _field("ignored", "there is no other server to ask"),
    "fallback_credit_token": _field("ignored", "nobody is billed"),
}
