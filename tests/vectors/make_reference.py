"""Pins what sentence-transformers makes of the models, for the tests, which don't need it.

    python -m tests.vectors.make_reference FOLDER     (all-MiniLM-L6-v2's)

minilm.npy   its vectors of fifty texts, in float16; beyond the model's 256 tokens they are cut
tiny.npz     the tiny models' vectors and scores of token rows
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.vectors import tiny
from tests.vectors.texts import texts

MINILM = Path(__file__).with_name("minilm.npy")
TINY = Path(__file__).with_name("tiny.npz")


def main(folder: str) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    rows = [model.encode([text], batch_size=1)[0] for text in texts()]
    np.save(MINILM, np.array(rows, dtype=np.float16))
    np.savez(TINY, **tiny_values())


def tiny_values() -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer

    values: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for family in tiny.CONFIGS:
            model = SentenceTransformer(str(tiny.build(Path(place) / family, family)), device="cpu")
            values[family] = np.stack([_vector(model, row) for row in tiny.rows()])
        for family in tiny.CLASSIFIERS:
            folder = tiny.build_reranker(Path(place) / f"{family}-reranker", family)
            values[f"{family} reranker"] = _scores(folder)
        values["bert pairs"] = _pair_scores(Path(place) / "bert-reranker")
    return values


def _vector(model: Any, row: list[int]) -> NDArray[np.float32]:
    import torch

    features = {"input_ids": torch.tensor([row]), "attention_mask": torch.ones(1, len(row)).long()}
    with torch.no_grad():
        vector: NDArray[np.float32] = model(features)["sentence_embedding"][0].numpy()
    return vector


def _scores(folder: Path) -> NDArray[np.float32]:
    import torch
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        scores = [model(torch.tensor([row])).logits[0, 0].item() for row in tiny.rows()]
    return np.array(scores, dtype=np.float32)


def _pair_scores(folder: Path) -> NDArray[np.float32]:
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    pairs = [("capital of France", document) for document in tiny.DOCUMENTS]
    scores: NDArray[np.float32] = CrossEncoder(str(folder), device="cpu").predict(
        pairs, activation_fn=Identity()
    )
    return scores


if __name__ == "__main__":
    main(sys.argv[1])
