"""docs/settings.md shows the settings that there are, as `--help` and their types have them.

After a change of these: ``python -m tests.unit.cli.test_settings_page`` rewrites the page's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path

import click
import pytest

from maxi_mlx.cli.configuration import PARAMETERS, SCHEDULER
from maxi_mlx.cli.serve import serve
from maxi_mlx.core.settings import STRATEGIES, SchedulerSettings
from tests.pages import with_table

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
SCHEDULER_NOTES = {
    "max_running_rows": "answers that decode together",
    "max_waiting_requests": "beyond it, 429",
    "prefill_slice_s": "longest a slice holds the device (where short prompts wait, four times)",
    "prefill_slice_tokens": "and how many tokens it has at most",
    "decode_share": "of the device, for running answers while a prompt is read",
    "memory_share": "of the device's memory, for weights and caches",
    "cache_share": "of what the weights leave of it, for the prompt cache",
}


def settings_table() -> str:
    options = {option.name: option for option in serve.params if isinstance(option, click.Option)}
    rows = ["| setting | value | what it does |", "|---|---|---|"]
    for parameter in PARAMETERS:
        option = options[parameter.name]
        value = "true, false" if option.is_flag else (option.metavar or "").replace("|", ", ")
        help = (option.help or "").replace("|", "\\|")
        rows.append(f"| `{parameter.name}` | {value} | {help} |")
    return "\n".join(rows)


def strategies_table() -> str:
    rows = ["| | " + " | ".join(STRATEGIES) + " |", "|---" * (len(STRATEGIES) + 1) + "|"]
    for field in fields(SchedulerSettings):
        values = (f"{getattr(strategy, field.name):g}" for strategy in STRATEGIES.values())
        note = SCHEDULER_NOTES[field.name]
        rows.append(f"| `{field.name}`: {note} | " + " | ".join(values) + " |")
    return "\n".join(rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "settings": settings_table,
    "strategies": strategies_table,
}


@pytest.mark.parametrize("name", TABLES)
def test_the_pages_table_is_the_codes(name: str) -> None:
    text = PAGE.read_text()
    assert with_table(text, name, TABLES[name]()) == text


def test_every_scheduler_setting_can_be_set() -> None:
    assert list(SCHEDULER) == [field.name for field in fields(SchedulerSettings)]


if __name__ == "__main__":
    page = PAGE.read_text()
    for each in TABLES:
        page = with_table(page, each, TABLES[each]())
    PAGE.write_text(page)
