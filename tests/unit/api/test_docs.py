"""docs/api.md says of every request field what the code's own table says.

After a change of the table: ``python -m tests.unit.api.test_docs`` rewrites the document's tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from maxi_mlx.api.anthropic.fields import COUNT_FIELDS, MESSAGES_FIELDS
from maxi_mlx.api.jina.fields import RERANK_FIELDS, SCORE_FIELDS
from maxi_mlx.api.ollama import fields as ollama
from maxi_mlx.api.openai.audio_fields import TRANSCRIPTION_FIELDS, TRANSLATION_FIELDS
from maxi_mlx.api.openai.fields import (
    CHAT_FIELDS,
    COMPLETION_FIELDS,
    EMBEDDING_FIELDS,
    RESPONSES_FIELDS,
    Field,
)
from maxi_mlx.api.responses.fields import RESPONSE_FIELDS
from tests.pages import with_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "api.md"
TABLES: Mapping[str, Mapping[str, Field]] = {
    "chat": CHAT_FIELDS,
    "completions": COMPLETION_FIELDS,
    "input": RESPONSES_FIELDS,
    "embeddings": EMBEDDING_FIELDS,
    "rerank": RERANK_FIELDS,
    "score": SCORE_FIELDS,
    "transcriptions": TRANSCRIPTION_FIELDS,
    "translations": TRANSLATION_FIELDS,
    "responses": RESPONSE_FIELDS,
    "messages": MESSAGES_FIELDS,
    "count_tokens": COUNT_FIELDS,
    "api/chat": ollama.CHAT_FIELDS,
    "api/generate": ollama.GENERATE_FIELDS,
    "options": ollama.OPTION_FIELDS,
    "api/embed": ollama.EMBED_FIELDS,
    "api/embeddings": ollama.EMBEDDINGS_FIELDS,
}


def table(fields: Mapping[str, Field]) -> str:
    rows = ["| field | | |", "|---|---|---|"]
    rows += [f"| `{name}` | {field.treatment} | {field.note} |" for name, field in fields.items()]
    return "\n".join(rows)


@pytest.mark.parametrize("name", TABLES)
def test_the_documents_table_is_the_codes(name: str) -> None:
    text = DOCUMENT.read_text()
    assert with_table(text, name, table(TABLES[name])) == text


if __name__ == "__main__":
    document = DOCUMENT.read_text()
    for each in TABLES:
        document = with_table(document, each, table(TABLES[each]))
    DOCUMENT.write_text(document)
