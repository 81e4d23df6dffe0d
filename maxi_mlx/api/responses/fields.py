"""Every request field the Responses API knows, and what becomes of it here.

The table to read for "does this server take X?"; a test holds it and the parsing together.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxi_mlx.api.openai.fields import CHAT_FIELDS, SHARED_FIELDS, Field

# Of chat's own fields, those that a client may send here too.
_AS_IN_CHAT = (
    *("enable_thinking", "thinking", "thinking_budget", "thinking_token_budget"),
    *("chat_template_kwargs", "chat_template", "moderation"),
    *("service_tier", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
    "safety_identifier",
)

RESPONSE_FIELDS: Mapping[str, Field] = {
    "model": SHARED_FIELDS["model"],
    "input": Field(
        "honoured",
        "a string, or items: messages of text and images, function_call, custom_tool_call and "
        "their outputs, reasoning, item_reference; may be left out after a previous response",
    ),
    "instructions": Field(
        "honoured", "a system message in front of all; not handed on to the next response"
    ),
    "previous_response_id": Field(
        "honoured", "goes on from a stored response: its input and output stand before the input"
    ),
    "store": Field(
        "honoured",
        "true, null and absent: kept on this machine, unless the server runs with --no-store; "
        "false: not kept",
    ),
    "background": Field(
        "honoured",
        "true: answered at once, to be fetched or cancelled by its id; with stream: goes on "
        "without its client, who can take up the stream again",
    ),
    "max_output_tokens": Field(
        "honoured",
        "at least 1, thoughts included; -1: to the end of the context; null and absent: the "
        "model's settings, else the same; wins over max_completion_tokens and max_tokens",
    ),
    "tools": Field(
        "honoured",
        "of type function, custom and namespace, which the client runs. web_search and tool_search "
        "are left out beside those, since agents offer them unasked; alone, and all other "
        "tools that OpenAI runs, are refused by name",
    ),
    "tool_choice": Field(
        "honoured", "'none', 'auto', 'required', a named function or custom tool, allowed_tools"
    ),
    "parallel_tool_calls": CHAT_FIELDS["parallel_tool_calls"],
    "text": Field("honoured", "its format: text, json_object, json_schema; enforced"),
    "reasoning": Field(
        "honoured",
        "effort goes to the chat template; with summary the thought itself is sent as its summary, "
        "without as reasoning_text",
    ),
    "truncation": Field(
        "honoured",
        "'auto': where the conversation is longer than the context, its oldest turns are left "
        "out; 'disabled': that is a 400",
    ),
    "include": Field(
        "honoured",
        "message.output_text.logprobs; others name what there is none of here (thoughts are sent "
        "as plain text, not encrypted)",
    ),
    "top_logprobs": Field("honoured", "0 to 20 alternatives for each token"),
    "metadata": Field("honoured", "up to 16 texts, kept with the response"),
    "stream": SHARED_FIELDS["stream"],
    "stream_options": Field("ignored", "include_obfuscation has no use on a local server"),
    "conversation": Field("refused", "conversations aren't kept; use previous_response_id"),
    "prompt": Field("refused", "there are no stored prompts here"),
    "context_management": Field("refused", "nothing is compacted here; see truncation"),
    "max_tool_calls": Field("ignored", "it counts calls of tools that OpenAI runs"),
    **{
        name: SHARED_FIELDS[name]
        for name in SHARED_FIELDS
        if name not in ("model", "stream", "stream_options", "n")
    },
    "n": Field("refused", "anything but 1 and null: a response is one answer"),
    **{name: CHAT_FIELDS[name] for name in _AS_IN_CHAT},
}
