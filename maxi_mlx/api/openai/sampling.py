"""The options the two endpoints share, checked: sampling, stop strings, lengths, counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from maxi_mlx.api.openai.schema import GenerationBody
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import (
    DEFAULT_XTC_THRESHOLD,
    MAX_CHOICES,
    MAX_STOP_LENGTH,
    MAX_STOP_STRINGS,
    MAX_TOP_LOGPROBS,
    NO_LIMIT,
    SamplingParams,
)


class Range(NamedTuple):
    """From ``low`` to ``high``; ``low`` itself is left out where ``is_above``."""

    low: float
    high: float
    is_above: bool = False

    def holds(self, value: float) -> bool:
        return (self.low < value if self.is_above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        if self.is_above:
            return f"above {self.low} and at most {self.high}"
        return f"from {self.low} to {self.high}"


RANGES: Mapping[str, Range] = {
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, is_above=True),
    "top_k": Range(-1, 2**31 - 1),
    "min_p": Range(0, 1),
    "xtc_probability": Range(0, 1),
    "xtc_threshold": Range(0, 0.5),
    "repetition_penalty": Range(0.01, 10),
    "repeat_penalty": Range(0.01, 10),
    "presence_penalty": Range(-2, 2),
    "frequency_penalty": Range(-2, 2),
    "seed": Range(-(2**63), 2**64 - 1),
    "n": Range(1, MAX_CHOICES),
}
_TOP_LOGPROBS = Range(0, MAX_TOP_LOGPROBS)
_BIAS = Range(-100, 100)
_MAX_TOKEN_ID_DIGITS = 10


def check_ranges(body: GenerationBody) -> None:
    for name, allowed in RANGES.items():
        value = getattr(body, name)
        if value is not None:
            check_range(name, value, allowed=allowed)


def check_range(name: str, value: float, *, allowed: Range) -> None:
    if not allowed.holds(value):
        raise InvalidRequest(f"'{name}' must be {allowed}, not {shown(value)}.", param=name)


def check_top_logprobs(name: str, value: int) -> None:
    check_range(name, value, allowed=_TOP_LOGPROBS)


def shown(value: object) -> str:
    """A client's value for a message, which a number of 4,000 digits must not fill."""
    written = str(value)
    return written if len(written) <= 40 else f"{written[:40]}…"


def sampling_params(body: GenerationBody) -> SamplingParams:
    """Call `check_ranges` first."""
    penalty, threshold = body.repetition_penalty, body.xtc_threshold
    return SamplingParams(
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=None if body.top_k is None else max(body.top_k, 0),
        min_p=body.min_p,
        xtc_probability=body.xtc_probability or 0.0,
        xtc_threshold=DEFAULT_XTC_THRESHOLD if threshold is None else threshold,
        repetition_penalty=body.repeat_penalty if penalty is None else penalty,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        logit_bias=_logit_bias(body.logit_bias or {}),
        seed=body.seed,
    )


def _logit_bias(wire: Mapping[str, float]) -> tuple[tuple[int, float], ...]:
    biases: dict[int, float] = {}  # "7" and "07" are one token
    for key, bias in wire.items():
        if not (key.isascii() and key.isdigit() and len(key) <= _MAX_TOKEN_ID_DIGITS):
            raise InvalidRequest(
                f"'logit_bias' has the key {key[:40]!r}; keys are token ids, such as \"42\".",
                param="logit_bias",
            )
        if not _BIAS.holds(bias):
            raise InvalidRequest(
                f"'logit_bias' of token {key} must be {_BIAS}, not {shown(bias)}.",
                param="logit_bias",
            )
        biases[int(key)] = bias
    return tuple(biases.items())


def stop_strings(wire: str | list[str] | None) -> tuple[str, ...]:
    if wire is None:
        return ()
    stops = (wire,) if isinstance(wire, str) else tuple(wire)
    if len(stops) > MAX_STOP_STRINGS:
        raise InvalidRequest(
            f"'stop' has {len(stops)} strings; at most {MAX_STOP_STRINGS} are allowed.",
            param="stop",
        )
    for index, stop in enumerate(stops):
        if not stop:
            param = "stop" if isinstance(wire, str) else f"stop[{index}]"
            raise InvalidRequest(f"'{param}' is an empty string, which stops nowhere.", param=param)
        if len(stop) > MAX_STOP_LENGTH:
            raise InvalidRequest(
                f"'stop' has a string of {len(stop)} characters; at most {MAX_STOP_LENGTH} are "
                "allowed.",
                param="stop",
            )
    return stops


def max_tokens(named: Mapping[str, int | None]) -> int | None:
    """The first that was given; all are checked. None: the model's default."""
    for name, value in named.items():
        if value is not None and value != -1 and value < 1:
            raise InvalidRequest(
                f"'{name}' must be at least 1, or -1 or null for as many as the context holds, "
                f"not {shown(value)}.",
                param=name,
            )
    given = next((value for value in named.values() if value is not None), None)
    return NO_LIMIT if given == -1 else given
