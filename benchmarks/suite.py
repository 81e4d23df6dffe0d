"""Everything that is promised of the server's speed, measured side by side in one run.

    python benchmarks/suite.py [--quick] [--only ROW] [--model tiny|smollm2|FOLDER]

Against mlx-lm in this process (stream_generate, and its batch generator with one greedy sampler)
and against mlx_lm.server from the same environment, on tiny llama and on SmolLM2; some rows bring
models of their own. Every server of ours gets an empty folder for its prompt cache, so that it
knows no prompt from before. Prints a table with targets, and leaves a JSON file and plots in
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from measuring.arguments import model_folder
from measuring.failure import MeasurementFailed
from measuring.in_process import InProcess
from measuring.machine import describe_machine, load_averages, machine_line
from measuring.models import BenchModel, build_tiny, endless_copy, smollm2_folder
from report.document import Run, write_json
from report.plots import write_plots
from report.table import brief, table
from rows import (
    apart,
    arrivals,
    choices,
    constrained,
    full_store,
    indexing,
    known_prefix,
    look_up,
    many_streams,
    memory,
    one_stream,
    own_cpu,
    peak_memory,
    restart,
    shared_bytes,
    stall,
    switch,
    transcription,
    turns,
    two_models,
)
from rows.apart import Apart
from rows.bench import Bench
from rows.figure import RowResult
from rows.sizes import Sizes, sizes_for

from maxi_mlx.cli.main import leave

RESULTS = Path(__file__).parent / "results"

Measure = Callable[[], Awaitable[RowResult]]

ROWS: Mapping[str, Callable[[Bench], Awaitable[RowResult]]] = {
    "one-stream": one_stream.measure,
    "many-streams": many_streams.measure,
    "own-cpu": own_cpu.measure,
    "stall": stall.measure,
    "arrivals": arrivals.measure,
    "choices": choices.measure,
    "memory": memory.measure,
    "ttft-known": known_prefix.measure,
    "ttft-restart": restart.measure,
    "shared-bytes": shared_bytes.measure,
    "decode-full-store": full_store.measure,
    "peak-memory": peak_memory.measure,
    "constrained": constrained.measure,
    "switch": switch.measure,
    "two-models": two_models.measure,
}
ROWS_APART: Mapping[str, Callable[[Apart], Awaitable[RowResult]]] = {
    "turns": turns.measure,
    "look-up": look_up.measure,
    "indexing": indexing.measure,
    "transcription": transcription.measure,
}
ALL_ROWS = (*ROWS, *ROWS_APART)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures what is promised of the server's speed.")
    add = parser.add_argument
    add("--quick", action="store_true", help="two short runs of each row: shows that it works")
    add("--only", action="append", choices=ALL_ROWS, metavar="ROW", help=", ".join(ALL_ROWS))
    add(
        "--model",
        action="append",
        type=_model,
        help="tiny, smollm2 or a model's folder (default: the first two); can be given again",
    )
    add("--out", type=Path, default=RESULTS, metavar="FOLDER", help="for JSON and plots")
    return parser.parse_args(arguments)


def _model(text: str) -> str | Path:
    return text if text in ("tiny", "smollm2") else model_folder(text)


def make_model(asked: str | Path, root: Path) -> BenchModel:
    if asked == "tiny":
        return build_tiny(smollm2_folder(), root)
    return endless_copy(asked if isinstance(asked, Path) else smollm2_folder(), root)


async def measure(model: BenchModel, rows: Sequence[str], sizes: Sizes) -> list[RowResult]:
    in_process = InProcess(model.folder)
    bench = Bench(model, sizes, in_process)
    try:
        return [await _measure_row(row, model.name, partial(ROWS[row], bench)) for row in rows]
    finally:
        in_process.close()


async def measure_apart(
    tokenizer_source: Path, rows: Sequence[str], sizes: Sizes
) -> list[RowResult]:
    there = Apart(sizes, tokenizer_source)
    return [await _measure_row(row, apart.NAME, partial(ROWS_APART[row], there)) for row in rows]


async def _measure_row(row: str, model: str, measure: Measure) -> RowResult:
    print(f"{model}: {row} …", file=sys.stderr, flush=True)
    try:
        result = await measure()
    except MeasurementFailed as failure:  # the other rows took their time already
        result = RowResult(row=row, model=model, strategy="", fault=str(failure))
    print(brief(result), file=sys.stderr, flush=True)
    return result


def run_suite(options: argparse.Namespace) -> Run:
    began_at, began_s = datetime.now(UTC), time.monotonic()
    load_at_start = load_averages()
    machine = describe_machine()
    print(machine_line(machine), file=sys.stderr, flush=True)
    results: list[RowResult] = []
    sizes: dict[str, Sizes] = {}
    asked_rows = options.only or ALL_ROWS
    rows = [row for row in asked_rows if row in ROWS]
    rows_apart = [row for row in asked_rows if row in ROWS_APART]
    models = options.model or ["tiny", "smollm2"]
    with tempfile.TemporaryDirectory(prefix="maxi-mlx-") as scratch:
        for place, asked in enumerate(models if rows else ()):
            model = make_model(asked, Path(scratch) / str(place))
            sizes[model.name] = sizes_for(is_tiny=model.is_tiny, is_quick=options.quick)
            results += asyncio.run(measure(model, rows, sizes[model.name]))
    if rows_apart:
        source = models[0] if isinstance(models[0], Path) else smollm2_folder()
        sizes[apart.NAME] = sizes_for(is_tiny=True, is_quick=options.quick)
        results += asyncio.run(measure_apart(source, rows_apart, sizes[apart.NAME]))
    return Run(
        began_at=began_at.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began_s,
        machine=machine,
        load_at_start=load_at_start,
        load_at_end=load_averages(),
        is_quick=options.quick,
        sizes=sizes,
        results=results,
    )


def save(run: Run, out: Path) -> None:
    folder = out / run.began_at[:19].replace(":", "")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(run, folder / "suite.json")
    (folder / "suite.txt").write_text(table(run) + "\n", encoding="utf-8")
    try:
        write_plots(run, folder)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print("no plots: pip install 'maxi-mlx[bench]' brings matplotlib", file=sys.stderr)
    print(f"{folder}: {', '.join(path.name for path in sorted(folder.iterdir()))}", file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """A target that is not met is a finding, not a failure; a row that broke off is one."""
    options = parse(arguments)
    run = run_suite(options)
    print(table(run))
    save(run, options.out)
    return 1 if any(result.fault is not None for result in run.results) else 0


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
