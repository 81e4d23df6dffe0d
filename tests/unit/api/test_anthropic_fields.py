"""The table of fields, held against the anthropic package and against what parsing reads."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from anthropic.types import message_count_tokens_params, message_create_params
from anthropic.types.beta import message_count_tokens_params as beta_count_params
from anthropic.types.beta import message_create_params as beta_create_params

from maxi_mlx.api.anthropic.fields import COUNT_FIELDS, MESSAGES_FIELDS
from maxi_mlx.api.anthropic.schema import CountBody, MessagesBody
from maxi_mlx.api.openai.fields import Field


def test_every_field_of_the_anthropic_package_is_in_the_table() -> None:
    for params in (message_create_params, beta_create_params):
        names = set(params.MessageCreateParamsBase.__annotations__)
        assert {"messages", "max_tokens", "thinking"} <= names
        assert names <= set(MESSAGES_FIELDS)
    for counts in (message_count_tokens_params, beta_count_params):
        names = set(counts.MessageCountTokensParams.__annotations__)
        assert {"messages", "tools"} <= names
        assert names <= set(COUNT_FIELDS)


@pytest.mark.parametrize(
    ("table", "body"),
    [(MESSAGES_FIELDS, MessagesBody), (COUNT_FIELDS, CountBody)],
    ids=["messages", "count_tokens"],
)
def test_what_is_read_is_what_is_not_ignored(
    table: Mapping[str, Field], body: type[CountBody]
) -> None:
    read = {field.name for field in msgspec.structs.fields(body)}
    assert read == {name for name, field in table.items() if field.treatment != "ignored"}
