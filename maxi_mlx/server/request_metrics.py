"""What is counted of requests, out of the records that the log's lines are made of.

A label is a word of ours, or the id of a model that is there: never what a client made up, of which
there is no end.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from maxi_mlx.server.record import RequestRecord

# From a cached prompt's milliseconds to a model that is fetched from a disk before it reads.
WAIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
# From a small model on a GPU to a large one on a CPU.
TOKEN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2.5, 10)


class RequestMetrics:
    """Lives on the event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"maxi_mlx_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(
                f"maxi_mlx_{name}_seconds", text, ("model",), registry=registry, buckets=buckets
            )

        self._known_models: set[str] = set()
        self._requests = counter(
            "requests",
            "Requests that ended, by the status of their answer (499: the client left) and why "
            "they ended.",
            *("api", "model", "status", "reason"),
        )
        self._faults = counter(
            "faults",
            "Requests that ended, if only in the middle of their answer, by an error of 500 or "
            "more.",
            *("api", "model", "reason"),
        )
        self._prompt_tokens = counter(
            "prompt_tokens", "Tokens of prompts and inputs, cached ones included.", "model"
        )
        self._cached_tokens = counter(
            "cached_tokens", "Of the prompts' tokens, those that the cache had.", "model"
        )
        self._completion_tokens = counter("completion_tokens", "Tokens of answers.", "model")
        self._queue_s = histogram(
            "queue_wait", "Before a prompt was read, loading its model included.", WAIT_BUCKETS
        )
        self._first_token_s = histogram(
            "time_to_first_token", "From a request to its first token.", WAIT_BUCKETS
        )
        self._token_s = histogram(
            "time_per_token", "Between two tokens of an answer, on its average.", TOKEN_BUCKETS
        )

    def count(self, record: RequestRecord, *, is_loaded: Callable[[str], bool]) -> None:
        """At a request's end. ``is_loaded``: whether a name is a loaded model's id."""
        api, model = record.protocol or "", self._label(record, is_loaded)
        reason, status = record.reason or "", str(record.status or "")
        self._requests.labels(api, model, status, reason).inc()
        if record.error is not None:
            self._faults.labels(api, model, reason).inc()
        for counter, num_tokens in (
            (self._prompt_tokens, record.prompt_tokens),
            (self._cached_tokens, record.cached_tokens),
            (self._completion_tokens, record.completion_tokens),
        ):
            if num_tokens is not None:
                counter.labels(model).inc(num_tokens)
        for histogram, seconds in (
            (self._queue_s, record.queue_s),
            (self._first_token_s, record.first_token_s),
            (self._token_s, record.token_s),
        ):
            if seconds is not None:
                histogram.labels(model).observe(seconds)

    def _label(self, record: RequestRecord, is_loaded: Callable[[str], bool]) -> str:
        if record.model is not None:
            self._known_models.add(record.model)
            return label(record.model)
        asked = record.asked_model
        if asked is not None and (asked in self._known_models or is_loaded(asked)):
            return label(asked)
        return ""


def label(id: str) -> str:
    """A folder's name may have bytes that are no text, which can't be sent."""
    return id.encode("utf-8", "replace").decode()
