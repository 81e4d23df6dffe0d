"""Every request field the OpenAI API knows, and what becomes of it here.

The one table to read for "does this server take X?". Parsing follows it, and a test holds the two
together; a field that is in no table is unknown and ignored, whatever its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Treatment = Literal["honoured", "ignored", "refused"]


class Field(NamedTuple):
    """``refused`` fields have harmless values too (null, an empty list): the note names them."""

    treatment: Treatment
    note: str


def _honoured(note: str) -> Field:
    return Field("honoured", note)


def _ignored(note: str) -> Field:
    return Field("ignored", note)


def _refused(note: str) -> Field:
    return Field("refused", note)


SHARED_FIELDS: Mapping[str, Field] = {
    "model": _honoured("a model's id; null, absent or empty: the engine's choice"),
    "adapters": _honoured(
        "the name of a LoRA adapter to put over the model, of those that the server found; never a "
        "path"
    ),
    "temperature": _honoured("0 to 2; 0 is greedy"),
    "top_p": _honoured("above 0, at most 1"),
    "top_k": _honoured("0 and -1: off"),
    "min_p": _honoured("0 to 1; 0: off"),
    "xtc_probability": _honoured(
        "0 to 1, the share of steps that leave out the top choices; 0: off; a step in which the "
        "answer's end or a newline would be left out stays as it is"
    ),
    "xtc_threshold": _honoured(
        "0 to 0.5, default 0.1: of tokens at least so probable, after the other filters, all but "
        "the least probable are left out"
    ),
    "repetition_penalty": _honoured("0.01 to 10; 1: off"),
    "repeat_penalty": _honoured("another name for repetition_penalty, which wins"),
    "presence_penalty": _honoured("-2 to 2"),
    "frequency_penalty": _honoured("-2 to 2"),
    "logit_bias": _honoured("token id (a string of digits) to -100 … 100"),
    "seed": _honoured("any signed or unsigned 64-bit number"),
    "cache": _honoured(
        "false: goes on from no stored prefix, and leaves none; absent, null and true: the cache "
        "is used"
    ),
    "stop": _honoured("a string or a list of up to 64, of 1 to 1000 characters each"),
    "max_tokens": _honoured(
        "at least 1; -1: to the end of the context; null and absent: the model's settings, else "
        "the same"
    ),
    "max_completion_tokens": _honoured("as max_tokens, and wins over it"),
    "n": _honoured("1 to 128 answers for each prompt"),
    "stream": _honoured("server-sent events"),
    "stream_options": _honoured(
        "include_usage adds a usage chunk; include_obfuscation has no use on a local server; "
        "without stream the options mean nothing and do no harm"
    ),
    "response_format": _honoured(
        "text, json_object (with a schema beside it as llama.cpp has it), json_schema; enforced, "
        "strict or not"
    ),
    "json_schema": _honoured("a schema that the answer must fit; llama.cpp's name"),
    "grammar": _honoured("a grammar of the answer: GBNF (with ::=) as in llama.cpp, else Lark"),
    "regex": _honoured("a pattern that matches the whole answer"),
    "choice": _honoured("the texts that the answer may be"),
    "guided_json": _honoured("vLLM's older name of json_schema; an object or its text"),
    "guided_regex": _honoured("vLLM's older name of regex"),
    "guided_choice": _honoured("vLLM's older name of choice"),
    "guided_grammar": _honoured("vLLM's older name of grammar"),
    "structured_outputs": _honoured(
        "vLLM's object of one of json, regex, choice, grammar, json_object"
    ),
    "user": _ignored("nobody is billed or watched"),
}

CHAT_FIELDS: Mapping[str, Field] = {
    **SHARED_FIELDS,
    "messages": _honoured(
        "roles system, developer, user, assistant, tool, function; parts of text, and of images "
        "(image_url, with a data: URL)"
    ),
    "logprobs": _honoured("true: with the log-probabilities of the answer's tokens"),
    "top_logprobs": _honoured("0 to 20 alternatives for each token; needs logprobs"),
    "reasoning_effort": _honoured(
        "goes to the chat template, which may know it; 'none' also sets enable_thinking to false"
    ),
    "enable_thinking": _honoured("goes to the chat template, as in chat_template_kwargs"),
    "thinking": _honoured(
        "true, false, or an object: type 'enabled' or 'disabled' is enable_thinking, "
        "budget_tokens is thinking_budget"
    ),
    "thinking_budget": _honoured(
        "the most tokens a thought may take, after which it is closed and the answer begins; 0: "
        "none; -1: no limit"
    ),
    "thinking_token_budget": _honoured("vLLM's name of thinking_budget, which wins"),
    "chat_template_kwargs": _honoured("names for the chat template, such as enable_thinking"),
    "tools": _honoured("functions, which the client runs; names as OpenAI has them"),
    "tool_choice": _honoured(
        "'none', 'auto', 'required', a named function, allowed_tools; with 'none' the tools are "
        "left out"
    ),
    "parallel_tool_calls": _honoured("false: at most one call an answer"),
    "functions": _honoured("the older name of tools; the answer's call is a function_call"),
    "function_call": _honoured("'none', 'auto' or a named function"),
    "modalities": _refused("anything but ['text']"),
    "audio": _refused("answers are text"),
    "moderation": _refused("no moderation model runs here"),
    "web_search_options": _refused("the server doesn't reach the web"),
    "chat_template": _refused("a client's template is a program; only the model's own runs"),
    "prediction": _ignored("a hint that can only make an answer faster"),
    "verbosity": _ignored("a wish that open models don't know"),
    "metadata": _ignored("nothing is stored"),
    "store": _ignored("nothing is stored"),
    "service_tier": _ignored("there is one tier"),
    "prompt_cache_key": _ignored("shared prefixes are found by their tokens"),
    "prompt_cache_options": _ignored("shared prefixes are found by their tokens"),
    "prompt_cache_retention": _ignored("the cache's budget decides"),
    "safety_identifier": _ignored("nobody is watched"),
}

# Some clients send the Responses API's shape to the chat endpoint and expect a chat answer. These
# names count only where ``messages`` is absent; beside it they are unknown fields.
RESPONSES_FIELDS: Mapping[str, Field] = {
    "input": _honoured("a string, or items: messages, function calls and their outputs"),
    "instructions": _honoured("a system message before the input"),
    "max_output_tokens": _honoured("as max_tokens, which wins over it"),
    "reasoning": _honoured("its effort, as reasoning_effort, which wins over it"),
    "text": _honoured("its format, as response_format"),
    "previous_response_id": _refused("answers aren't kept"),
    "conversation": _refused("conversations aren't kept"),
}

EMBEDDING_FIELDS: Mapping[str, Field] = {
    "model": _honoured("an embedding model's id; null, absent or empty: the engine's choice"),
    "input": _honoured("text, token ids, or a list of 1 to 2048 of either; none of them empty"),
    "encoding_format": _honoured("'float' or 'base64' (little-endian float32)"),
    "dimensions": _honoured(
        "vectors cut to so many numbers and normalised again; the model must have been trained "
        "for it"
    ),
    "prompt_name": _honoured("one of the model's own prompts, put before each text"),
    "input_type": _honoured(
        "'query' or 'document' (also 'search_query', 'search_document', 'passage'): the model's "
        "prompt for that, if it has one"
    ),
    "truncate": _honoured(
        "true (or 'END'): what is too long is cut at its end; false, null and absent: it is a 400 "
        "that names the input"
    ),
    "user": _ignored("nobody is billed or watched"),
}

COMPLETION_FIELDS: Mapping[str, Field] = {
    **SHARED_FIELDS,
    "prompt": _honoured("text, token ids, or a list of either; none of them empty"),
    "suffix": _honoured("the text after the gap; the model must know fill-in-the-middle"),
    "echo": _honoured("the prompt before the answer; not together with logprobs"),
    "logprobs": _honoured("0 to 20 alternatives for each token, wider than OpenAI's 5"),
    "best_of": _refused("anything but 1, n and null: answers aren't ranked"),
}
