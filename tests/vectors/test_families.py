"""Every family's vectors and scores against what sentence-transformers and transformers give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.embedding import EmbeddingRequest, ScoreRequest
from maxi_mlx.engine import device

device.prepare("auto")

from maxi_mlx.engine.engine import Engine  # noqa: E402
from maxi_mlx.engine.loading import Loading, finish  # noqa: E402
from maxi_mlx.engine.vectors import encoders, models  # noqa: E402
from maxi_mlx.engine.vectors.layers import Pauses  # noqa: E402
from maxi_mlx.engine.vectors.pooling import read_config  # noqa: E402
from maxi_mlx.engine.vectors.tokens import TokenRow, read_tokenizer  # noqa: E402
from tests.vectors import tiny  # noqa: E402
from tests.vectors.conftest import needs_extra  # noqa: E402
from tests.vectors.make_reference import TINY  # noqa: E402

PINNED = np.load(TINY)
ROWS = tuple(map(tuple, tiny.rows()))
EXTRA_FAMILIES = [family for family in tiny.CONFIGS if family != "qwen3"]
FAMILIES = ["qwen3", *(pytest.param(family, marks=needs_extra) for family in EXTRA_FAMILIES)]


def asking(family: str, *inputs: object, **more: object) -> EmbeddingRequest:
    name = f"tiny-{family}-embedding"
    return EmbeddingRequest(id="r", model=name, inputs=inputs, **more)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
async def test_vectors_are_those_of_sentence_transformers(engine: Engine, family: str) -> None:
    together = (await engine.embed(asking(family, *ROWS))).rows
    alone = np.concatenate([(await engine.embed(asking(family, row))).rows for row in ROWS])
    assert together.dtype == np.float32
    assert np.abs(together - PINNED[family]).max() < 2e-6
    assert np.abs(alone - together).max() < 2e-6, "padding changes a vector"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "tiny-qwen3-embedding",
        *(
            pytest.param(f"tiny-{family}", marks=needs_extra)
            for family in ("bert-embedding", "modernbert-embedding", "gemma3_text-embedding")
        ),
        pytest.param("tiny-xlm-roberta-reranker", marks=needs_extra),
    ],
)
def test_layer_by_layer_the_numbers_are_the_same(vector_models: Path, name: str) -> None:
    model = loaded(vector_models, name)
    rows = [TokenRow(ids=row) for row in tiny.rows()]
    for _ in range(2):  # what one batch leaves behind is not in the next
        num_pauses, numbers = taken(model.steps(rows))
        assert num_pauses == tiny.LAYERS
        assert np.abs(numbers - model.compute(rows)).max() < 1e-6


def taken(steps: Pauses[NDArray[np.float32]]) -> tuple[int, NDArray[np.float32]]:
    num_pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return num_pauses, end.value
        num_pauses += 1


@needs_extra
@pytest.mark.parametrize("family", tiny.CLASSIFIERS)
def test_scores_are_those_of_transformers(vector_models: Path, family: str) -> None:
    model = loaded(vector_models, f"tiny-{family}-reranker")
    rows = [TokenRow(ids=row) for row in tiny.rows()]
    together = model.compute(rows)[:, 0]
    alone = [model.compute([row])[0, 0] for row in rows]
    assert np.abs(together - PINNED[f"{family} reranker"]).max() < 3e-6
    assert np.abs(together - alone).max() < 3e-6, "padding changes a score"


def loaded(folder: Path, name: str) -> models.VectorModel:
    entry = Catalog([Root(folder, "tests", "folders")]).find(name)
    assert entry.problem is None
    config = read_config(entry.path)
    tokenizer, _ = read_tokenizer(entry.path)
    return finish(models.load_vectors(Loading(entry), config, tokenizer))


@pytest.mark.slow
@needs_extra
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("family", ["modernbert", "gemma3_text", "bert"])
def test_padding_is_no_nan_in_half_precision(tmp_path: Path, family: str, kind: str) -> None:
    import mlx.core as mx

    folder = tiny.build(tmp_path / f"half-{family}-embedding", family)
    weights = encoders.read_weights(folder)
    save(folder, {name: array.astype(getattr(mx, kind)) for name, array in weights.items()})
    model = loaded(tmp_path, folder.name)
    # A row of two tokens beside one of forty: most of its places are padding far from any token.
    together = model.compute([TokenRow(ids=ROWS[1]), TokenRow(ids=ROWS[5])])
    assert np.abs(together - PINNED[family][[1, 5]]).max() < 0.1


@needs_extra
def test_quantised_weights_are_read(tmp_path: Path) -> None:
    import mlx.core as mx

    folder = tiny.build(tmp_path / "quantised", "bert", quantization={"group_size": 32, "bits": 8})
    weights = {}
    for name, array in encoders.read_weights(folder).items():
        if array.ndim == 2 and array.shape[1] == tiny.WIDTH and "pooler" not in name:
            packed, scales, biases = mx.quantize(array, group_size=32, bits=8)
            weights[name] = packed
            stem = name.removesuffix("weight")
            weights[f"{stem}scales"], weights[f"{stem}biases"] = scales, biases
        else:
            weights[name] = array
    save(folder, weights)
    got = loaded(tmp_path, "quantised").compute([TokenRow(ids=row) for row in ROWS])
    cosines = (got * PINNED["bert"]).sum(axis=1)
    assert cosines.min() > 0.999


def save(folder: Path, weights: dict[str, Any]) -> None:
    """In place of the file that they may still be read from."""
    import mlx.core as mx

    mx.save_safetensors(str(folder / "new.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "new.safetensors").rename(folder / "model.safetensors")


async def test_a_language_model_judges_by_yes_and_no(tmp_path: Path) -> None:
    import mlx.core as mx

    folder = tmp_path / "tiny-reranker"
    tiny.build(folder, "qwen3", files=False)
    add_words(folder)
    model = loaded(tmp_path, "tiny-reranker")
    assert isinstance(model, models.Judge)
    rows = tiny.rows()
    scores = model.compute([TokenRow(ids=row) for row in rows])[:, 0]
    for row, score in zip(rows, scores, strict=True):
        logits = model.model(mx.array([row]))[0, -1]
        assert abs(float(logits[model.yes_id] - logits[model.no_id]) - score) < 1e-4


def add_words(folder: Path) -> None:
    """Whole words as tokens, at the place of two that the vocabulary has."""
    import json

    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    for token_id, word in ((400, "yes"), (401, "no")):
        old = next(key for key, value in tokenizer["model"]["vocab"].items() if value == token_id)
        del tokenizer["model"]["vocab"][old]
        tokenizer["model"]["vocab"][word] = token_id
        tokenizer["model"]["merges"] = [
            pair for pair in tokenizer["model"]["merges"] if old not in ("".join(pair), *pair)
        ]
    path.write_text(json.dumps(tokenizer))


@needs_extra
async def test_pairs_are_read_as_the_model_was_trained(engine: Engine) -> None:
    asked = ScoreRequest(
        id="r",
        model="tiny-bert-reranker",
        queries=("capital of France",),
        documents=tiny.DOCUMENTS,
        raw=True,
    )
    scores = (await engine.score(asked)).scores
    expected = PINNED["bert pairs"]
    assert np.abs(np.array(scores) - expected).max() < 3e-6
