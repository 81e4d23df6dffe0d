"""The table that a run prints: what was promised, and what came of it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from measuring.machine import machine_line
from rows.figure import Figure, RowResult

from report.document import Run

HEADINGS = ("what", "target", "measured", "range", "", "strategy", "made from")
VERDICTS = {True: "met", False: "NOT MET", None: ""}
CONDITIONS = """\
Contenders take turns within a run; a ratio is taken run by run, and the median of the runs counts.
All run in this environment, on one MLX and one BLAS. mlx_lm.server gets that BLAS and a longer
queue of connections by benchmarks/measuring/mlx_lm_server.py, and no seeds, since with one it does
not batch. No answer ends before its length is reached."""


def table(run: Run) -> str:
    lines = [machine_line(run.machine), _circumstances(run)]
    for model in dict.fromkeys(result.model for result in run.results):
        results = [result for result in run.results if result.model == model]
        lines += ["", f"{model}, {run.sizes[model].num_runs} runs", *_aligned(results)]
        # Of a server that fell, the last line says why.
        lines += [f"{r.row} broke off: {r.fault.splitlines()[-1]}" for r in results if r.fault]
    return "\n".join([*lines, "", CONDITIONS])


def _circumstances(run: Run) -> str:
    kind = "quick run: no proof; " if run.is_quick else ""
    start, end = (" ".join(map(str, load)) for load in (run.load_at_start, run.load_at_end))
    return f"{kind}{run.began_at}, {run.seconds:.0f} s; load average {start} → {end}"


def _aligned(results: Iterable[RowResult]) -> list[str]:
    rows: list[tuple[str, ...]] = [HEADINGS]
    for result in results:
        rows += [_row(result, figure) for figure in result.figures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def brief(result: RowResult) -> str:
    """A row by itself, for those who wait for the others."""
    if result.fault is not None:
        return f"  broke off: {result.fault}"
    return "\n".join(f"  {' '.join(filter(None, _row(result, f)))}" for f in result.figures)


def _row(result: RowResult, figure: Figure) -> tuple[str, ...]:
    return (
        figure.what,
        "" if figure.target is None else f"{figure.target}{_unit(figure)}",
        number(figure.median) + _unit(figure),
        _range(figure.runs),
        VERDICTS[figure.is_met],
        result.strategy,
        figure.detail,
    )


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _range(runs: Sequence[float]) -> str:
    return "" if len(runs) < 2 else f"{number(min(runs))}-{number(max(runs))}"


def _unit(figure: Figure) -> str:
    return f" {figure.unit}" if figure.unit else ""
