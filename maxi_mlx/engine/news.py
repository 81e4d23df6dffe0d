"""What rows are told beside their tokens: how far their prompts are, and why they can't go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maxi_mlx.core.errors import MaxiError
from maxi_mlx.engine.mailbox import FaultNews, Outbox, PrefillNews
from maxi_mlx.engine.row import PromptJob, Row


def post_progress(job: PromptJob, num_read: int, outbox: Outbox) -> None:
    """So many tokens of a prompt are read."""
    for row in job.rows:
        outbox.append((row.mailbox, PrefillNews(row.choice, num_read, len(job.token_ids))))


def post_faults(rows: Sequence[Row], make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
    """An error each: it is raised in several tasks, and a traceback grows with every raise."""
    for row in rows:
        outbox.append((row.mailbox, FaultNews(make_error())))
