"""``options``, ``format`` and ``think``, checked, as the core has them."""

from __future__ import annotations

from typing import Any

from maxi_mlx.api.ollama.schema import OptionsItem
from maxi_mlx.api.openai.json_schema import check_schema
from maxi_mlx.api.openai.reasoning import EFFORTS
from maxi_mlx.api.openai.sampling import RANGES, check_range, shown, stop_strings
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import ANY_JSON_OBJECT, Constraint, json_by_schema
from maxi_mlx.core.request import NO_LIMIT, Reasoning, SamplingParams

_RANDOM_SEED = -1
_NO_PENALTY = 1.0


def sampling_params(options: OptionsItem) -> SamplingParams:
    for name in options.__struct_fields__:
        if name in RANGES and (value := getattr(options, name)) is not None:
            check_range(f"options.{name}", value, allowed=RANGES[name])
    # A penalty over the last 0 tokens is none; other lengths aren't told apart, it covers them all.
    penalty = _NO_PENALTY if options.repeat_last_n == 0 else options.repeat_penalty
    return SamplingParams(
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=None if options.top_k is None else max(options.top_k, 0),
        min_p=options.min_p,
        repetition_penalty=penalty,
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        seed=None if options.seed == _RANDOM_SEED else options.seed,
    )


def max_tokens(options: OptionsItem) -> int | None:
    """Ollama has -1 for no end and -2 for the end of the context, which are the same here; its
    runners take 0 for no limit, too."""
    wanted = options.num_predict
    return NO_LIMIT if wanted is not None and wanted <= 0 else wanted


def stops(options: OptionsItem) -> tuple[str, ...]:
    try:
        return stop_strings(options.stop)
    except InvalidRequest as error:
        message = error.message.replace("'stop", "'options.stop", 1)
        raise InvalidRequest(message, param=f"options.{error.param}") from None


def constraint(wanted: str | dict[str, Any] | None) -> Constraint | None:
    if wanted is None or wanted == "":
        return None
    if wanted == "json":
        return Constraint(node=ANY_JSON_OBJECT, param="format")
    if isinstance(wanted, str):
        raise InvalidRequest(
            f"'format' must be \"json\" or a JSON schema, not {shown(wanted)!r}.", param="format"
        )
    check_schema(wanted, "format")
    try:
        node = json_by_schema(wanted)
    except RecursionError:  # what stands in an enum or a default may nest as it likes
        raise InvalidRequest("'format' nests too deeply.", param="format") from None
    return Constraint(node=node, param="format")


def reasoning(think: bool | str | None) -> Reasoning:
    if think is None or think == "":
        return Reasoning()
    if isinstance(think, bool):
        return Reasoning(enabled=think)
    if think not in EFFORTS:
        raise InvalidRequest(
            f"'think' must be true, false, or one of {', '.join(EFFORTS)}, not {think[:40]!r}.",
            param="think",
        )
    return Reasoning(effort=think, enabled=think != "none")


def template_kwargs(settings: Reasoning) -> dict[str, Any]:
    kwargs: dict[str, Any] = {}
    if settings.effort is not None:
        kwargs["reasoning_effort"] = settings.effort
    if settings.enabled is not None:  # most templates know a switch, not a scale
        kwargs["enable_thinking"] = settings.enabled
    return kwargs
