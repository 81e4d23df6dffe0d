"""Turns a checked request into rows for the device thread, once its model is there.

GenerateRequest + token ids ─► PromptJob (one a prompt) ─► Row (one an answer)
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxi_mlx.core.errors import DoesNotFit
from maxi_mlx.core.request import GenerateRequest, SamplingParams
from maxi_mlx.engine.generation import Generation
from maxi_mlx.engine.row import PromptJob, Row, RowSampling, draw_key

if TYPE_CHECKING:
    from maxi_mlx.engine.language_model import LanguageModel
    from maxi_mlx.engine.prompt import BuiltPrompt

# Reading less than this is soon done again.
_SHORT_PROMPT_TOKENS = 128
_LATEST_BORDERS = 3
# The room an answer needs at the least to be worth starting, in tokens.
_ANSWER_TOKENS = 256


def check_memory(
    request: GenerateRequest,
    model: LanguageModel,
    token_ids: Sequence[Sequence[int]],
    *,
    limit_bytes: int,
) -> int:
    """Refuses prompts whose caches could not fit even with nothing else running; says what the
    largest of them needs."""
    most_bytes = 0
    n, param = request.n, "messages" if request.is_chat else "prompt"
    budget_bytes = limit_bytes - model.entry.all_weight_bytes
    for prompt in token_ids:
        needed_bytes = model.kv_cost.batch_bytes([len(prompt) + _ANSWER_TOKENS] * n)
        if needed_bytes > budget_bytes:
            raise DoesNotFit(
                f"A prompt of {len(prompt)} tokens with {n} answers needs "
                f"{needed_bytes / 2**20:.0f} MiB of KV cache on {model.entry.id}, but "
                f"{max(budget_bytes, 0) / 2**20:.0f} MiB are left beside its weights. Shorten the "
                "prompt, or ask for fewer answers.",
                param=param,
            )
        most_bytes = max(most_bytes, needed_bytes)
    return most_bytes


def fill_in_defaults(params: SamplingParams, model: LanguageModel) -> RowSampling:
    """What the request says, else what the model's owner or authors say, else the neutral value."""

    def value(name: str, neutral: float) -> float:
        asked: float | None = getattr(params, name)
        return asked if asked is not None else model.sampling_defaults.get(name, neutral)

    return RowSampling(
        temperature=value("temperature", 1.0),
        top_p=value("top_p", 1.0),
        top_k=int(value("top_k", 0)),
        min_p=value("min_p", 0.0),
        xtc_probability=params.xtc_probability,
        xtc_threshold=params.xtc_threshold,
        xtc_spared=_spared_by_xtc(model) if params.xtc_probability else (),
        repetition_penalty=value("repetition_penalty", 1.0),
        presence_penalty=value("presence_penalty", 0.0),
        frequency_penalty=value("frequency_penalty", 0.0),
        logit_bias=params.logit_bias,
        seed=params.seed if params.seed is not None else secrets.randbits(64),
    )


def _spared_by_xtc(model: LanguageModel) -> tuple[int, ...]:
    """The ends of an answer and of a line, among the ids that the model has logits for."""
    ids = range(model.vocabulary_size)
    line_end = next((i for i in ids if model.vocabulary.data(i) == b"\n"), None)
    ends = {*model.end_ids} if line_end is None else {*model.end_ids, line_end}
    return tuple(sorted(ends.intersection(ids)))


def message_borders(token_ids: Sequence[int], model: LanguageModel) -> tuple[int, ...]:
    """Where a prompt's messages end, in tokens: after the system prompt, and after the latest ones.

    The next turn is the same up to one of them, even where a template rewrites what was answered.
    Of a model that can be gone on with from anywhere, none.
    """
    if not model.keeps_states or len(token_ids) < _SHORT_PROMPT_TOKENS:
        return ()
    marks = model.end_ids | model.vocabulary.special_ids
    ends = [place + 1 for place, token_id in enumerate(token_ids) if token_id in model.end_ids]
    if not ends:  # a template that marks beginnings alone
        ends = [place for place, token_id in enumerate(token_ids) if token_id in marks and place]
    ends = [place for place in ends if place < len(token_ids)]
    return tuple(sorted({*ends[:1], *ends[-_LATEST_BORDERS:]}))


def make_jobs(
    request: GenerateRequest,
    model: LanguageModel,
    prompts: Sequence[BuiltPrompt],
    generation: Generation,
) -> list[PromptJob]:
    """The rows of a request, each known to the generation that will read its tokens."""
    sampling = fill_in_defaults(request.sampling, model)
    asked = request.max_tokens
    if asked is None:
        asked = model.entry.settings.max_tokens
    jobs = []
    for index, built in enumerate(prompts):
        prompt, guide = built.token_ids, built.plan.guide
        room = model.context_length - len(prompt)
        max_tokens = room if asked is None else min(asked, room)
        rows = []
        for choice in range(index * request.n, (index + 1) * request.n):
            row = Row(
                mailbox=generation.mailbox,
                request_id=request.id,
                choice=choice,
                sampling=sampling,
                key=draw_key(sampling.seed, choice),
                token_ids=list(prompt),
                num_prompt_tokens=len(prompt),
                max_tokens=max_tokens,
                end_ids=model.end_ids,
                top_logprobs=request.top_logprobs,
                guide=guide.start(max_tokens=max_tokens) if guide is not None else None,
                pictures=built.pictures,
                uses_cache=request.uses_cache,
            )
            generation.add(row, built.plan.text(model, choice=choice))
            rows.append(row)
        borders = message_borders(prompt, model) if request.uses_cache else ()
        jobs.append(
            PromptJob(token_ids=prompt, rows=rows, borders=borders, pictures=built.pictures)
        )
    return jobs
