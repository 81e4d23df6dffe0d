"""What rows are told: how far their prompts are, their tokens, and why they can't go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maxi_mlx.core.errors import MaxiError
from maxi_mlx.engine.batch import StepToken
from maxi_mlx.engine.mailbox import FaultNews, Outbox, PrefillNews, TokenNews
from maxi_mlx.engine.row import PromptJob, Row


def post_progress(job: PromptJob, num_read: int, outbox: Outbox) -> None:
    """So many tokens of a prompt are read."""
    for row in job.rows:
        outbox.append((row.mailbox, PrefillNews(row.choice, num_read, len(job.token_ids))))


def post_token(token: StepToken, outbox: Outbox) -> bool:
    """Sends a token on its way, or raises what is wrong with it; says whether its row is done."""
    row = token.row
    if token.fault is not None:
        raise token.fault
    row.token_ids.append(token.token_id)
    end = row.end_by(token.token_id)
    outbox.append((row.mailbox, TokenNews(row.choice, token.token_id, end, token.scores)))
    return end is not None


def post_faults(rows: Sequence[Row], make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
    """An error each: it is raised in several tasks, and a traceback grows with every raise."""
    for row in rows:
        outbox.append((row.mailbox, FaultNews(make_error())))
