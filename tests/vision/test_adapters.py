"""An adapter over a model that sees: it answers to text as mlx-lm has it, and sees as its base."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from tests.engine.asking import ask, make_request
from tests.models.adapter import build_adapter, tokens_by_mlx_lm
from tests.vision.asking import ask_about, picture

PROMPT = [20, 30, 40]


@pytest.mark.slow
async def test_text_and_images_through_an_adapter(seeing_models: Path, tmp_path: Path) -> None:
    base = seeing_models / "tiny-gemma3"
    adapter = build_adapter(tmp_path / "poet", base)
    catalog = Catalog([Root(seeing_models, "tests", "folders")], adapter_dirs=(tmp_path,))
    engine = Engine(Settings(), catalog)
    await engine.start()
    try:
        text = await ask(engine, make_request(PROMPT, model="tiny-gemma3:poet", top_logprobs=0))
        ids = [token.token_id for token in text.tokens[0]]
        assert ids == tokens_by_mlx_lm(base, adapter, prompt=PROMPT)
        seen = [
            (await ask(engine, ask_about(picture(seed), model=name))).text
            for name in ("tiny-gemma3", "tiny-gemma3:poet")
            for seed in (0, 1)
        ]
        assert len(set(seen)) == len(seen)
    finally:
        await engine.close()
