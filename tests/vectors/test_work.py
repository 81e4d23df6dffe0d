"""One model's requests on the device: turns, order, leaving, and failures."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.settings import STRATEGIES
from maxi_mlx.engine import device

device.prepare("auto")

from maxi_mlx.engine.mailbox import FaultNews, Mailbox, Outbox, RowsNews  # noqa: E402
from maxi_mlx.engine.rota import Rota  # noqa: E402
from maxi_mlx.engine.vectors import work as work_module  # noqa: E402
from maxi_mlx.engine.vectors.batches import BatchSize  # noqa: E402
from maxi_mlx.engine.vectors.job import VectorJob  # noqa: E402
from maxi_mlx.engine.vectors.layers import Pauses  # noqa: E402
from maxi_mlx.engine.vectors.tokens import TokenRow  # noqa: E402
from maxi_mlx.engine.vectors.work import VectorWork  # noqa: E402
from tests.engine.clock import Clock  # noqa: E402
from tests.engine.conftest import entry_for  # noqa: E402

BAD = 666


@dataclass
class Echo:
    """Gives each row's first token, and raises on one of them: what a request gets is seen."""

    batches: list[list[int]] = field(default_factory=list)
    layer_s: float = 0.0
    num_layers: int = 0  # that were computed apart

    def compute(self, rows: Sequence[TokenRow]) -> NDArray[np.float32]:
        firsts = [row.ids[0] for row in rows]
        self.batches.append(firsts)
        if BAD in firsts:
            raise RuntimeError("a bad row")
        return np.array([[first] for first in firsts], dtype=np.float32)

    def steps(self, rows: Sequence[TokenRow]) -> Pauses[NDArray[np.float32]]:
        """Three layers."""
        for _ in range(3):
            time.sleep(self.layer_s)
            self.num_layers += 1
            yield
        return self.compute(rows)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def work(echo: Echo, tiny_model) -> VectorWork:  # type: ignore[no-untyped-def]
    entry = entry_for(tiny_model("llama"))
    size = BatchSize(width=64)
    return VectorWork(echo, entry, size, memory_left_bytes=lambda: 1 << 30)


def job(*firsts: int, length: int = 40) -> VectorJob:
    return VectorJob(Mailbox(), [TokenRow(ids=[first] * length) for first in firsts])


def run(work: VectorWork, *, turns: int = 1000) -> Outbox:
    rota, outbox = Rota(STRATEGIES["balanced"]), []
    for _ in range(turns):
        if not work.has_work:
            break
        outbox += rota.turn([work])
    return outbox


def test_results_come_in_the_order_of_the_inputs(work: VectorWork) -> None:
    lengths = [3, 90, 40, 1, 90, 7]
    asked = VectorJob(Mailbox(), [TokenRow(ids=[10 + i] * n) for i, n in enumerate(lengths)])
    work.submit(asked)
    [(mailbox, news)] = run(work)
    assert mailbox is asked.mailbox
    assert isinstance(news, RowsNews)
    assert news.rows[:, 0].tolist() == [10, 11, 12, 13, 14, 15]
    assert work.figures().num_prefill_tokens == sum(lengths)


def test_a_small_request_does_not_wait_for_a_large_one(work: VectorWork, echo: Echo) -> None:
    work.submit(job(*range(1000, 2000)))
    run(work, turns=2)
    small = job(7)
    work.submit(small)
    outbox = run(work, turns=2)
    assert [mailbox for mailbox, _ in outbox] == [small.mailbox]
    assert work.has_work


def test_requests_share_a_batch(work: VectorWork, echo: Echo) -> None:
    jobs = [job(index) for index in range(5)]
    for each in jobs:
        work.submit(each)
    outbox = run(work)
    assert len(outbox) == 5
    assert [len(batch) for batch in echo.batches] == [5]


def test_whoever_leaves_takes_its_inputs_along(work: VectorWork, echo: Echo) -> None:
    leaving, staying = job(*range(500)), job(7)
    work.submit(leaving)
    work.submit(staying)
    run(work, turns=1)
    num_before = sum(map(len, echo.batches))
    work.cancel(leaving.mailbox)
    outbox = run(work)
    assert all(mailbox is staying.mailbox for mailbox, _ in outbox)
    assert sum(map(len, echo.batches)) - num_before <= 1


def test_a_bad_request_ends_alone(work: VectorWork) -> None:
    good, bad = job(1, 2, 3), job(4, BAD)
    work.submit(good)
    work.submit(bad)
    news = dict(run(work))
    assert isinstance(news[good.mailbox], RowsNews)
    assert isinstance(news[bad.mailbox], FaultNews)
    assert isinstance(news[bad.mailbox].error, EngineFailed)
    assert "a bad row" in (work.figures().fault or "")
    work.submit(again := job(5))
    assert dict(run(work))[again.mailbox].rows.tolist() == [[5.0]]  # type: ignore[union-attr]


def test_what_ends_the_model_ends_every_request(work: VectorWork) -> None:
    jobs = [job(1), job(2)]
    for each in jobs:
        work.submit(each)
    outbox: Outbox = []
    work.fail_all(lambda: EngineFailed("gone"), outbox)
    assert {id(mailbox) for mailbox, _ in outbox} == {id(each.mailbox) for each in jobs}
    assert not work.has_work


@pytest.fixture
def slow(work: VectorWork, echo: Echo, monkeypatch: pytest.MonkeyPatch) -> VectorWork:
    """A batch takes several slices of a tenth of a second, however busy the machine is."""
    clock = Clock()
    for module in (work_module, sys.modules[__name__]):
        monkeypatch.setattr(module, "time", clock)
    echo.layer_s = 0.02
    work.size.learn(1, 40, 0.06)
    return work


def test_a_long_batch_is_computed_in_several_slices(slow: VectorWork, echo: Echo) -> None:
    asked = job(1, 2, length=5)
    slow.submit(asked)
    outbox: Outbox = []
    for num_layers in (1, 2, 3):
        slow.read(0.01, outbox)
        assert (echo.num_layers, outbox) == (num_layers, [])
    slow.read(0.01, outbox)
    [(mailbox, news)] = outbox
    assert mailbox is asked.mailbox
    assert isinstance(news, RowsNews)
    assert news.rows.tolist() == [[1.0], [2.0]]
    assert not slow.has_work


def test_a_slice_has_as_many_layers_as_it_has_time_for(slow: VectorWork, echo: Echo) -> None:
    slow.submit(job(1))
    slow.read(0.0625, [])  # of which a fifth is kept back
    assert echo.num_layers == 2


def test_what_a_batch_under_way_takes_is_reserved(
    echo: Echo, slow: VectorWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = BatchSize(width=64, token_bytes=100, pair_bytes=2)
    size.learn(1, 40, 0.06)
    monkeypatch.setattr(slow, "size", size)
    slow.submit(job(1, length=50))
    assert slow.promised_bytes == 0
    slow.read(0.01, [])
    assert slow.promised_bytes == 50 * (100 + 2 * 50)
    while slow.has_work:
        slow.read(0.05, [])
    assert slow.promised_bytes == 0
    assert echo.batches == [[1]]


def test_a_short_batch_is_computed_at_once(work: VectorWork, echo: Echo) -> None:
    work.size.learn(1, 40, 0.001)
    work.submit(job(1))
    outbox: Outbox = []
    work.read(0.5, outbox)
    assert (len(outbox), echo.num_layers) == (1, 0)


def test_whoever_leaves_in_the_middle_of_a_batch(slow: VectorWork, echo: Echo) -> None:
    """Alone, it takes the batch along; in company the others get what is theirs."""
    leaving = job(1)
    slow.submit(leaving)
    slow.read(0.01, [])
    slow.cancel(leaving.mailbox)
    assert not slow.has_work
    leaving, staying = job(2, length=5), job(3, length=5)
    slow.submit(leaving)
    slow.submit(staying)
    slow.read(0.01, [])
    slow.cancel(leaving.mailbox)
    outbox = run(slow)
    assert [mailbox for mailbox, _ in outbox] == [staying.mailbox]
    assert echo.batches == [[2, 3]]


def test_a_batch_that_fails_in_the_middle(slow: VectorWork) -> None:
    leaving, bad, good = (job(first, length=5) for first in (1, BAD, 3))
    for each in (leaving, bad, good):
        slow.submit(each)
    slow.read(0.01, [])
    slow.cancel(leaving.mailbox)
    news = dict(run(slow))
    assert isinstance(news[good.mailbox], RowsNews)
    assert isinstance(news[bad.mailbox], FaultNews)
    assert leaving.mailbox not in news


def test_many_requests_want_one_slice(work: VectorWork) -> None:
    """Answers' share of the device is for as many answers as there are things to read."""
    for _ in range(10):
        work.submit(job(1, 2))
    assert work.num_wanting == 1
