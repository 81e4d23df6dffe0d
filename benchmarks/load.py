"""A load client for any OpenAI-compatible server.

    python benchmarks/load.py --url http://127.0.0.1:11434/v1 --model NAME --concurrency 1,4,16

For each number of clients: time to first token, gaps between tokens, tokens and requests a second,
errors by kind; as a table, and with --json as a file. One request that is not counted comes first.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from measuring.arguments import count, counts, seconds
from measuring.client import Target
from measuring.figures import Figures, summarise, table
from measuring.level import ask_once, run_level
from measuring.prompts import make_prompt


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Puts load on an OpenAI-compatible server and measures its answers."
    )
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:11434/v1", help="up to and with /v1")
    add("--model", required=True)
    add("--api-key")
    add("--endpoint", choices=("chat", "completions"), default="chat")
    add("--concurrency", type=counts, default=[1, 4, 16], metavar="N,N", help="clients at once")
    add("--requests", type=count, default=32, metavar="N", help="at each concurrency")
    add("--prompt-tokens", type=count, default=128, metavar="N", help="about so many")
    add("--max-tokens", type=count, default=64, metavar="N")
    add("--stream", action=argparse.BooleanOptionalAction, default=True)
    add("--same-prompt", action="store_true", help="one prompt for all, so that caches count")
    add("--seed", type=int, default=0, help="of the prompts")
    add("--timeout", type=seconds, default=300.0, metavar="S", help="for one request")
    add("--max-time", type=seconds, default=900.0, metavar="S", help="for one concurrency")
    add("--json", type=Path, metavar="FILE", help="where to write the figures; - prints them")
    return parser.parse_args(arguments)


async def measure(options: argparse.Namespace) -> list[Figures]:
    target = Target(
        url=options.url,
        model=options.model,
        endpoint=options.endpoint,
        max_tokens=options.max_tokens,
        streams=options.stream,
        timeout_s=options.timeout,
        api_key=options.api_key,
    )
    await _warm_up(target, options)
    levels = []
    for place, concurrency in enumerate(options.concurrency):
        first = 1 + place * options.requests  # no prompt is met at two levels
        prompts = [_prompt(first + index, options) for index in range(options.requests)]
        level = await run_level(
            target, prompts, concurrency=concurrency, max_time_s=options.max_time
        )
        levels.append(
            summarise(
                level.replies,
                concurrency=concurrency,
                wall_s=level.wall_s,
                streams=options.stream,
            )
        )
    return levels


async def _warm_up(target: Target, options: argparse.Namespace) -> None:
    """Loads the model; tells a wrong address or name before the load does so many times."""
    reply = await ask_once(target, _prompt(0, options))
    if reply.error is not None:
        raise SystemExit(
            f"The first request to {target.address} failed: {reply.error} {reply.detail}".strip()
        )


def _prompt(index: int, options: argparse.Namespace) -> str:
    return make_prompt(
        index,
        num_tokens=options.prompt_tokens,
        seed=options.seed,
        is_same=options.same_prompt,
    )


def write_json(path: Path, options: argparse.Namespace, levels: Sequence[Figures]) -> None:
    settings = {
        name: value for name, value in vars(options).items() if name not in ("api_key", "json")
    }
    document = {"settings": settings, "levels": levels}
    text = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    if str(path) == "-":
        sys.stdout.buffer.write(text)
    else:
        path.write_bytes(text)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    levels = asyncio.run(measure(options))
    writes_to_stdout = options.json is not None and str(options.json) == "-"
    print(table(levels), file=sys.stderr if writes_to_stdout else sys.stdout)
    if options.json is not None:
        write_json(options.json, options, levels)
    return 1 if any(level.num_errors for level in levels) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
