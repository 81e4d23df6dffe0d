"""Every request field that Ollama's API knows, and what becomes of it here.

The tables of `maxi_mlx.api.openai.fields`, for this API; a field in no table is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxi_mlx.api.openai.fields import Field, Treatment


def _field(treatment: Treatment, note: str) -> Field:
    return Field(treatment, note)


_IMAGES = _field("honoured", "in base64, by a model that sees; they stand before the text")
_MODEL = _field(
    "honoured",
    "a model's name, with or without `:latest`, or one of Ollama's library (see Ollama: models); "
    "empty: the engine's choice",
)
_KEEP_ALIVE = _field(
    "honoured",
    "how long the model then stays loaded with nothing to do: seconds, or text such as '5m'; -1: "
    "for ever; 0: no longer than this request. Absent: as was said last, at first --keep-alive. "
    "Without a text to answer or to embed, the model is loaded, or with 0 unloaded",
)
_SIZE = _field("ignored", "the machine, the model and the scheduler decide it")

_WRITING_FIELDS: Mapping[str, Field] = {
    "model": _MODEL,
    "options": _field("honoured", "see the table of options"),
    "format": _field("honoured", '"json", or a JSON schema; enforced. An empty text is none'),
    "think": _field(
        "honoured",
        "true, false, or none, minimal, low, medium, high, xhigh, max, for the chat template; "
        "absent: as the model's template has it. A model that does not think goes on not thinking",
    ),
    "stream": _field("honoured", "lines of JSON unless it is false"),
    "keep_alive": _KEEP_ALIVE,
    "logprobs": _field("honoured", "true: with the log-probabilities of the answer's tokens"),
    "top_logprobs": _field("honoured", "0 to 20 alternatives for each token; needs logprobs"),
}

CHAT_FIELDS: Mapping[str, Field] = {
    **_WRITING_FIELDS,
    "messages": _field(
        "honoured",
        "roles system, user, assistant (with thinking and tool_calls), tool (with tool_name); "
        "a user's or a tool's may have images. A last message of the assistant's is how the answer "
        "begins; none at all: the model is loaded",
    ),
    "tools": _field("honoured", "functions, which the client runs"),
}

GENERATE_FIELDS: Mapping[str, Field] = {
    **_WRITING_FIELDS,
    "prompt": _field(
        "honoured",
        "one message of the user's; absent or empty, without suffix: the model is loaded",
    ),
    "suffix": _field(
        "honoured",
        "the text between prompt and suffix, by models that have the tokens for it; else a 400",
    ),
    "system": _field("honoured", "the system message, in place of one in context"),
    "context": _field(
        "honoured", "that of an earlier answer: the conversation goes on. From elsewhere: a 400"
    ),
    "raw": _field("honoured", "true: the prompt goes to the model as it is, and has no context"),
    "template": _field("refused", "any but an empty text: the model's own template is used"),
    "images": _IMAGES,
    "width": _field("ignored", "of images, which aren't made here"),
    "height": _field("ignored", "of images, which aren't made here"),
    "steps": _field("ignored", "of images, which aren't made here"),
}

OPTION_FIELDS: Mapping[str, Field] = {
    "temperature": _field("honoured", "0 to 2; 0 is greedy"),
    "top_p": _field("honoured", "above 0, at most 1"),
    "top_k": _field("honoured", "0 and -1: off"),
    "min_p": _field("honoured", "0 to 1; 0: off"),
    "repeat_penalty": _field("honoured", "0.01 to 10; 1: off; over prompt and answer"),
    "repeat_last_n": _field("honoured", "0: no repeat_penalty; other lengths are all the text"),
    "presence_penalty": _field("honoured", "-2 to 2"),
    "frequency_penalty": _field("honoured", "-2 to 2"),
    "seed": _field("honoured", "any signed or unsigned 64-bit number; -1 is a new one each time"),
    "stop": _field("honoured", "a string or a list of up to 64, of 1 to 1000 characters each"),
    "num_predict": _field("honoured", "the most tokens of the answer; 0 and less: no limit"),
    "num_ctx": _field("ignored", "a model has its whole context, which takes memory as it fills"),
    "num_keep": _field("ignored", "no text is cut: what is too long is a 400"),
    "mirostat": _field("ignored", "the other options choose the tokens"),
    "mirostat_tau": _field("ignored", "as mirostat"),
    "mirostat_eta": _field("ignored", "as mirostat"),
    "tfs_z": _field("ignored", "newer versions of Ollama have it no more"),
    "typical_p": _field("ignored", "the other options choose the tokens"),
    "penalize_newline": _field("ignored", "newer versions of Ollama have it no more"),
    "numa": _SIZE,
    "num_batch": _SIZE,
    "num_gpu": _SIZE,
    "main_gpu": _SIZE,
    "low_vram": _SIZE,
    "f16_kv": _SIZE,
    "logits_all": _SIZE,
    "vocab_only": _SIZE,
    "use_mmap": _SIZE,
    "use_mlock": _SIZE,
    "embedding_only": _SIZE,
    "num_thread": _SIZE,
}

EMBED_FIELDS: Mapping[str, Field] = {
    "model": _MODEL,
    "input": _field("honoured", "a text or a list of them; empty: no vectors"),
    "truncate": _field("honoured", "false: what is too long is a 400; otherwise it is cut"),
    "dimensions": _field("honoured", "the vectors' length, of a model that allows it"),
    "options": _field("ignored", "none has a use here"),
    "keep_alive": _KEEP_ALIVE,
}

EMBEDDINGS_FIELDS: Mapping[str, Field] = {
    "model": _MODEL,
    "prompt": _field("honoured", "a text; empty: an empty vector"),
    "options": _field("ignored", "none has a use here"),
    "keep_alive": _KEEP_ALIVE,
}
