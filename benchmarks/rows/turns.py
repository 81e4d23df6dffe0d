"""Ten turns of a chat with models whose caches can't be cut: how much of the prompts is computed,
beside what was new in them.

    turn 1   system, question                                   new: all of it
    turn 2   system, question, answer, question                 new: what comes after the answer
    turn 3   system, question, answer, question, answer, …      new: what comes after the last one

An answer is not new: its tokens were computed when it was written. mlx_lm.server's computed tokens
are those that it does not call cached; it leaves out an answer's first space, which is put back, so
that it gets the tokens that it wrote.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from measuring.chat import Turn, ask_turn
from measuring.chat_models import CHAT_CONFIGS, build_chat_model
from measuring.failure import MeasurementFailed
from measuring.prompts import make_prompt
from measuring.server import Running, running_mlx_lm_server, running_server
from measuring.stats import settled

from rows.apart import NAME, Apart
from rows.bench import DEFAULT_STRATEGY, OURS, THEIRS
from rows.figure import Figure, RowResult, at_most, median

NUM_TURNS = 10
SYSTEM_TOKENS = 200
QUESTION_TOKENS = 40
ANSWER_TOKENS = 60


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    turns: Sequence[Turn]
    num_computed: int

    @property
    def num_new(self) -> int:
        return new_tokens(self.turns)

    @property
    def ratio(self) -> float:
        return self.num_computed / self.num_new


async def measure(apart: Apart) -> RowResult:
    figures: list[Figure] = []
    chats: dict[str, dict[str, list[Chat]]] = {}
    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as root:
        for kind in CHAT_CONFIGS:
            model = build_chat_model(kind, apart.tokenizer_source, Path(root))
            chats[kind], fault = await _both(model.folder, apart.sizes.num_memory_runs)
            figures += _figures(kind, chats[kind], fault)
    return RowResult(
        row="turns",
        model=NAME,
        strategy=DEFAULT_STRATEGY,
        figures=figures,
        raw={"chats": chats},
    )


async def _both(folder: Path, num_runs: int) -> tuple[dict[str, list[Chat]], str]:
    """Chats with each of the two; what mlx_lm.server could not do is said, and no fault of the
    row's."""
    async with running_server(folder) as server:
        ours = [await _chat(server, index) for index in range(num_runs)]
    try:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(running_mlx_lm_server(folder))
            theirs = [await _chat(server, index) for index in range(num_runs)]
    except MeasurementFailed as failure:
        return {OURS: ours}, str(failure).splitlines()[-1]
    return {OURS: ours, THEIRS: theirs}, ""


def _figures(kind: str, chats: dict[str, list[Chat]], fault: str) -> list[Figure]:
    figures = [
        Figure(
            what=f"{NUM_TURNS}-turn chat, tiny {kind}: prompt tokens computed ÷ new",
            target=at_most(1.3),
            runs=[chat.ratio for chat in chats[OURS]],
            detail=_described(chats[OURS]) + (f"; {fault}" if fault else ""),
        )
    ]
    if THEIRS in chats:
        figures.append(
            Figure(
                what="  mlx_lm.server, the same",
                target=None,
                runs=[chat.ratio for chat in chats[THEIRS]],
                detail=_described(chats[THEIRS]),
            )
        )
    return figures


def _described(chats: Sequence[Chat]) -> str:
    computed = median([chat.num_computed for chat in chats])
    new = median([chat.num_new for chat in chats])
    whole = median([chat.turns[-1].prompt_tokens for chat in chats])
    return f"{computed:.0f} and {new:.0f} tokens; the last prompt {whole:.0f}"


async def _chat(server: Running, index: int) -> Chat:
    first = (index + 1) * 1000
    messages = [_message("system", make_prompt(first, num_tokens=SYSTEM_TOKENS, seed=1))]
    before = await settled(server)
    turns = []
    for number in range(1, NUM_TURNS + 1):
        question = make_prompt(first + number, num_tokens=QUESTION_TOKENS, seed=1)
        messages.append(_message("user", question))
        turns.append(await ask_turn(server, messages, max_tokens=ANSWER_TOKENS))
        text = turns[-1].text
        messages.append(_message("assistant", text if text.startswith(" ") else f" {text}"))
    num_computed = (await settled(server)).prefill_tokens - before.prefill_tokens
    if server.name != OURS:
        num_computed = sum(turn.prompt_tokens - turn.cached_tokens for turn in turns)
    return Chat(turns=turns, num_computed=num_computed)


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def new_tokens(turns: Sequence[Turn]) -> int:
    """All of the first prompt, and of the others what comes after the last answer."""
    number = known = 0
    for turn in turns:
        number += turn.prompt_tokens - known
        known = turn.prompt_tokens + turn.completion_tokens
    return number
