"""``/metrics``: what was counted of requests is what the log says of them; labels have an end."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.events import Completed, Failed, TextDelta, Timings, Usage
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import RUNNING
from tests.server import asking
from tests.server.asking import until
from tests.server.running import Client, Start
from tests.server.test_delivery import GOOD, STARTED, Endless, leave, played, serving

DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"


class Scraped(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """Every sample by its name and labels."""

    def value(self, name: str, /, **labels: str) -> float | None:
        return self.get((f"maxi_mlx_{name}", frozenset(labels.items())))

    def of(self, name: str) -> dict[Mapping[str, str], float]:
        return {labels: value for (own, labels), value in self.items() if own == f"maxi_mlx_{name}"}


async def scraped(client: Client) -> Scraped:
    answer = await client.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(answer.body.decode())
    samples = [sample for family in families for sample in family.samples]
    found = Scraped({(s.name, frozenset(s.labels.items())): s.value for s in samples})
    assert len(found) == len(samples), "a sample came twice"
    return found


async def test_requests_are_counted_as_they_are_logged(
    start: Start, scripted_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))
    messages = asking.body()["messages"]
    for _ in range(2):
        await client.post(asking.CHAT, json=asking.body())
    body = {"model": "scripted", "messages": messages, "max_tokens": 20}
    await client.post("/v1/messages", json=body)
    await client.post("/v1/messages/count_tokens", json=body)
    await client.post("/api/chat", json={**body, "stream": True})
    await client.post("/v1/responses", json={"model": "scripted", "input": "hello"})
    lines = [record.__dict__["fields"] for record in caplog.records]
    assert [line["protocol"] for line in lines] == [
        *("openai", "openai", "anthropic", "anthropic", "ollama", "responses")
    ]
    got = await scraped(client)
    ended = {"model": "scripted", "status": "200", "reason": "stop"}
    assert got.value("requests_total", api="openai", **ended) == 2
    for name in ("prompt_tokens", "cached_tokens", "completion_tokens"):
        total = sum(line.get(name, 0) for line in lines)
        assert total > 0
        assert got.value(f"{name}_total", model="scripted") == total
    for name, field in (("time_to_first_token", "first_token_s"), ("queue_wait", "queue_s")):
        seconds = [line[field] for line in lines if field in line]
        assert got.value(f"{name}_seconds_count", model="scripted") == len(seconds) == 5
        took_s = got.value(f"{name}_seconds_sum", model="scripted")
        assert took_s == pytest.approx(sum(seconds), abs=0.01)
    assert got.value("model_loads_total", model="scripted") == 1
    assert got.value("model_loaded", model="scripted") == 1
    assert got.value("engine_state", state="ready") == 1
    assert (got.value("process_memory_bytes") or 0) > 2**20
    assert (got.value("prompt_cache_hit_tokens_total") or 0) > 0


async def test_unknown_names_make_no_labels(start: Start, scripted_model: Path) -> None:
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))
    for place in range(5):
        ask = {"model": f'made-up-{place}"\n', "prompt": "a"}
        assert (await client.post(asking.TEXT, json=ask)).status == 404
        assert (await client.get(f"/nowhere/{place}")).status == 404
    got = await scraped(client)
    refused = {"model": "", "status": "404"}
    assert got.value("requests_total", api="openai", reason="model_not_found", **refused) == 5
    assert got.value("requests_total", api="", reason="not_found", **refused) == 5
    assert len(got.of("requests_total")) == 2
    # One that is there is named, also where it is refused.
    await client.post(asking.TEXT, json={"model": "scripted", "prompt": "a", "max_tokens": 1})
    await client.post(asking.TEXT, json={"model": "scripted", "prompt": "hello " * 9000})
    reasons = {dict(labels)["reason"] for labels in (await scraped(client)).of("requests_total")}
    assert reasons == {"model_not_found", "not_found", "length", "context_length_exceeded"}


async def test_the_document_names_every_metric(start: Start) -> None:
    client = await start()
    await client.engine.wait_ready()
    documented = DOCUMENT.read_text(encoding="utf-8")
    text = (await client.get("/metrics")).body.decode()
    names = re.findall(r"^# TYPE maxi_mlx_(\w+) ", text, re.M)
    assert len(names) > 20
    assert [name for name in names if f"`{name}`" not in documented] == []


async def test_an_error_in_the_middle_of_a_stream_is_a_fault(start: Start) -> None:
    half = (STARTED, TextDelta(0, "half"), 0.05, Failed(EngineFailed("it broke")))
    client = await serving(start, played(*half))
    await client.get("/stream")
    got = await scraped(client)
    labels = {"api": "", "model": "tiny", "reason": "engine_failed"}
    assert got.value("faults_total", **labels) == 1
    assert got.value("requests_total", status="200", **labels) == 1


async def test_who_left_is_counted_with_what_there_was(start: Start) -> None:
    client = await serving(start, Endless(STARTED))
    await leave(client, after=6)
    await until(lambda: client.app[RUNNING].num_running == 0)
    got = await scraped(client)
    left = {"api": "", "model": "tiny", "status": "499", "reason": "client_left"}
    assert got.value("requests_total", **left) == 1
    assert got.value("prompt_tokens_total", model="tiny") == 3


async def test_a_time_falls_into_its_bucket(start: Start) -> None:
    usage = Usage(prompt_tokens=3, completion_tokens=11)
    timings = Timings(queue_s=0.02, prefill_s=0.1, first_token_s=0.3, decode_s=0.4)
    client = await serving(start, played(*GOOD[:-1], Completed(usage, timings)))
    await client.get("/whole")
    got = await scraped(client)
    for name, below, above in (
        ("queue_wait", "0.01", "0.025"),
        ("time_to_first_token", "0.25", "0.5"),
        ("time_per_token", "0.035", "0.05"),
    ):
        buckets = [
            got.value(f"{name}_seconds_bucket", model="tiny", le=le) for le in (below, above)
        ]
        assert buckets == [0, 1]


async def test_each_server_counts_for_itself(start: Start) -> None:
    first, second = await start(), await start()
    await first.get("/nowhere")
    assert len((await scraped(first)).of("requests_total")) == 1
    assert not (await scraped(second)).of("requests_total")
    names = [family.name for family in prometheus_client.REGISTRY.collect()]
    assert not any("maxi_mlx" in name for name in names)


async def test_metrics_need_a_key_and_are_no_request_themselves(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await start(Settings(api_keys=("k",)))
    for _ in range(2):
        answer = await client.get("/metrics", headers={"x-api-key": "k"})
    assert b"maxi_mlx_requests_total{" not in answer.body
    assert not caplog.records
    assert (await client.get("/metrics")).status == 401
    assert caplog.messages[0].startswith("status=401 reason=invalid_api_key")
