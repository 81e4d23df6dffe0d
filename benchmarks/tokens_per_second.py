"""How much of mlx-lm's own speed is left when a server stands before it.

    python benchmarks/tokens_per_second.py [--model FOLDER]

Starts `maxi-mlx serve` with the model, loads the same model with mlx-lm in this process, and lets
the two take turns at the same prompts, so that a busy machine slows both. With --against, another
OpenAI-compatible server takes turns too. Greedy, raw completions: all write the same tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from measuring.arguments import count, counts, model_folder
from measuring.client import Target
from measuring.in_process import InProcess
from measuring.level import run_level
from measuring.prompts import make_prompt
from measuring.server import running_server
from measuring.speed import Rounds, Speed, comparison
from measuring.turns import Contender, take_turns

from maxi_mlx.cli.main import leave

ROUND_TIMEOUT_S = 900.0
TINY_CONTEXT_LENGTH = 4096


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The server's speed beside in-process mlx-lm's.")
    add = parser.add_argument
    add(
        "--model",
        type=model_folder,
        metavar="FOLDER",
        help="default: SmolLM2 if pulled, else a tiny one",
    )
    add("--concurrency", type=counts, default=[1, 4, 16], metavar="N,N", help="texts at once")
    add("--rounds", type=count, default=3, metavar="N", help="turns of each, at each concurrency")
    add("--prompt-tokens", type=count, default=64, metavar="N", help="about so many")
    add("--max-tokens", type=count, default=64, metavar="N")
    add("--against", metavar="URL", help="another server, up to and with /v1")
    add("--against-model", metavar="NAME", help="the model's name there; default: the folder's")
    add("--json", type=Path, metavar="FILE", help="where to write every round's figures")
    return parser.parse_args(arguments)


async def measure(folder: Path, options: argparse.Namespace) -> dict[int, Rounds]:
    in_process = InProcess(folder)
    try:
        async with running_server(folder) as server:
            contenders: dict[str, Contender[Speed]] = {
                "in-process": lambda prompts: in_process.measure(
                    prompts, max_tokens=options.max_tokens
                ),
                "server": _client(server.url, server.model, options),
            }
            if options.against is not None:
                other = options.against_model or folder.name
                contenders["other"] = _client(options.against, other, options)
            return {
                concurrency: await take_turns(
                    contenders, partial(_prompts, options, concurrency), num_rounds=options.rounds
                )
                for concurrency in options.concurrency
            }
    finally:
        in_process.close()


def _prompts(options: argparse.Namespace, concurrency: int, index: int) -> list[str]:
    """Of a round; none is met twice."""
    first = (concurrency * 1000 + index) * 1000
    return [
        make_prompt(first + place, num_tokens=options.prompt_tokens, seed=0)
        for place in range(concurrency)
    ]


def _client(url: str, model: str, options: argparse.Namespace) -> Contender[Speed]:
    target = Target(
        url=url,
        model=model,
        endpoint="completions",
        max_tokens=options.max_tokens,
        streams=True,
        timeout_s=ROUND_TIMEOUT_S,
    )

    async def measure_round(prompts: Sequence[str]) -> Speed:
        level = await run_level(
            target, prompts, concurrency=len(prompts), max_time_s=ROUND_TIMEOUT_S
        )
        errors = {reply.error: reply.detail for reply in level.replies if reply.error is not None}
        if errors:
            raise SystemExit(f"{url} failed: {errors}")
        return Speed(
            num_tokens=sum(reply.completion_tokens for reply in level.replies),
            seconds=level.wall_s,
            first_token_s=tuple(
                first for reply in level.replies if (first := reply.first_token_s) is not None
            ),
        )

    return measure_round


def _pulled_model() -> Path | None:
    from maxi_mlx.catalog.roots import home_models_dir

    pulled = [path.parent for path in sorted(home_models_dir().glob("SmolLM2*/config.json"))]
    return pulled[0] if pulled else None


def _build_tiny(root: Path) -> Path:
    sys.path.append(str(Path(__file__).parent.parent))
    from tests.models import build_model

    return build_model(root / "tiny-llama", "llama", max_position_embeddings=TINY_CONTEXT_LENGTH)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as scratch:
        folder = options.model or _pulled_model() or _build_tiny(Path(scratch))
        print(f"{folder.name}: {options.rounds} rounds, {options.max_tokens} tokens a text at most")
        levels = asyncio.run(measure(folder, options))
    print(comparison(levels))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.encode(levels))
    return 0


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
