"""Images where a prompt is read in small slices, read anew, restored, or can't be read at all."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.errors import NotInstalled
from maxi_mlx.core.request import Image
from maxi_mlx.core.settings import STRATEGIES, Settings
from maxi_mlx.engine.batch import DecodeBatch, StepToken
from maxi_mlx.engine.engine import Engine
from maxi_mlx.engine.vision import packages
from tests.engine.asking import ask, listed, make_request
from tests.engine.conftest import make_engine
from tests.vision.asking import ask_about, picture
from tests.vision.test_answers import expected, ids_of
from tests.vision.tiny import FAMILIES, quantized, with_hub_names


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
async def test_slices_shorter_than_an_image(seeing_models: Path, family: str) -> None:
    few = replace(STRATEGIES["balanced"], prefill_slice_tokens=3)
    folders = [seeing_models / f"tiny-{family}"]
    async with make_engine(folders, Settings(scheduler=few)) as engine:
        reply = await ask(engine, ask_about(picture(0), picture(1), model=f"tiny-{family}"))
    assert ids_of(reply) == expected(seeing_models, family, 0, 1)


@pytest.mark.slow
async def test_a_row_that_is_read_anew_gets_its_image_again(
    engine: Engine, seeing_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch failed half way through."""
    step, num_failed = DecodeBatch.step, 0

    def failing(batch: DecodeBatch) -> list[StepToken]:
        nonlocal num_failed
        if len(batch) > 1 and batch.rows[0].num_generated > 3 and not num_failed:
            num_failed += 1
            raise RuntimeError("a fault of the test's")
        return step(batch)

    monkeypatch.setattr(DecodeBatch, "step", failing)
    model = "tiny-idefics3"
    requests = [
        make_request("Tell me a story.", model=model, max_tokens=60),
        ask_about(picture(0), model=model),
        ask_about(picture(1), model=model),
    ]
    replies = await asyncio.gather(*(ask(engine, request) for request in requests))
    assert num_failed == 1
    assert ids_of(replies[1]) == expected(seeing_models, "idefics3", 0)
    assert ids_of(replies[2]) == expected(seeing_models, "idefics3", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("patient_with_disk")
async def test_an_image_comes_back_from_disk_with_its_prompt(seeing_models: Path) -> None:
    """The next server's first answer about it."""
    images = [picture(seed) for seed in range(4)]
    model = "tiny-idefics3"
    replies = []
    for _ in range(2):
        async with make_engine([seeing_models / model]) as engine:
            await ask(engine, make_request("Hi", model=model, max_tokens=1))
            await listed(engine)
            replies.append(await ask(engine, ask_about(*images, model=model)))
    first, again = replies
    assert ids_of(first) == ids_of(again)
    assert first.usage is not None
    assert again.usage is not None
    assert first.usage.cached_tokens == 0
    assert again.usage.cached_tokens == again.usage.prompt_tokens - 1 > 200


@pytest.mark.slow
async def test_a_folder_as_the_hub_has_it(seeing_models: Path, tmp_path: Path) -> None:
    """SmolVLM2, by transformers' names of the weights and with its form of a convolution's."""
    folder = with_hub_names(seeing_models / "tiny-idefics3", tmp_path / "tiny-smolvlm")
    async with make_engine([folder]) as engine:
        reply = await ask(engine, ask_about(picture(0), model="tiny-smolvlm"))
    assert ids_of(reply) == expected(seeing_models, "idefics3", 0)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["idefics3", "qwen3_vl"])
async def test_quantised_eyes(seeing_models: Path, tmp_path: Path, family: str) -> None:
    quantized(seeing_models / f"tiny-{family}", tmp_path / f"tiny-{family}")
    async with make_engine([tmp_path / f"tiny-{family}"]) as engine:
        reply = await ask(engine, ask_about(picture(0), model=f"tiny-{family}"))
    assert ids_of(reply) == expected(tmp_path, family, 0)


async def test_images_that_take_long_keep_no_text_waiting(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maxi_mlx.engine.vision import prompts

    decode, may_go, begun = prompts.decode_image, threading.Event(), threading.Event()

    def waiting(image: Image) -> object:
        begun.set()
        may_go.wait(60)
        return decode(image)

    monkeypatch.setattr(prompts, "decode_image", waiting)
    model = "tiny-idefics3"
    requests = [ask_about(picture(seed), model=model) for seed in range(6)]
    asking = [asyncio.create_task(ask(engine, request)) for request in requests]
    try:
        await asyncio.to_thread(begun.wait, 30)
        await asyncio.sleep(0.3)  # the others too, as far as there are threads
        async with asyncio.timeout(30):
            await ask(engine, make_request("Hello", model=model, max_tokens=1))
    finally:
        may_go.set()
    assert all(reply.text for reply in await asyncio.gather(*asking))


async def test_without_the_extra_text_is_served_and_an_image_is_a_501(
    seeing_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "_MODULES", ("no_such_module",))
    engine = Engine(Settings(), Catalog([Root(seeing_models, "tests", "folders")]))
    await engine.start()
    for family in FAMILIES:
        model = f"tiny-{family}"
        reply = await ask(engine, make_request("Hello", model=model))
        assert len(reply.text) > 10
        with pytest.raises(NotInstalled, match=r"no_such_module.*pip install .*\[vision\]"):
            await ask(engine, ask_about(picture(0), model=model))
    await engine.close()
