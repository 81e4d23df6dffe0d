"""What ``/openapi.json`` says of ``/rerank`` and ``/score``."""

from __future__ import annotations

from maxi_mlx.api.jina.answer_schema import Ranking, Scores
from maxi_mlx.api.jina.fields import RERANK_FIELDS, SCORE_FIELDS
from maxi_mlx.api.jina.parse import RerankBody, ScoreBody
from maxi_mlx.api.openai.answer_schema import ErrorBody
from maxi_mlx.api.openapi.operation import Operation, whole

RERANK = Operation(
    tag="Rerank",
    summary="Documents by how well they answer a query.",
    bodies=(RerankBody,),
    fields=RERANK_FIELDS,
    example={"query": "ships", "documents": ["The ships that passed", "A blue book"]},
    answers=(whole(Ranking),),
    errors=(ErrorBody,),
)

SCORE = Operation(
    tag="Rerank",
    summary="How well the texts of each pair go together.",
    bodies=(ScoreBody,),
    fields=SCORE_FIELDS,
    example={"text_1": "ships", "text_2": ["The ships that passed", "A blue book"]},
    answers=(whole(Scores),),
    errors=(ErrorBody,),
)
