"""A run's plots, as PNG files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring.machine import machine_line
from measuring.speed import Speed
from rows.figure import RowResult, median
from rows.stall import Stall

from report.document import Run

MET, MISSED, PLAIN = "#2a7f3f", "#b3362b", "#4c6a92"
SPEED_ROWS = ("one-stream", "many-streams")


def write_plots(run: Run, folder: Path) -> list[Path]:
    """What there is to draw of a run; needs matplotlib."""
    import matplotlib as mpl

    mpl.use("agg")  # no window
    written = []
    for model in dict.fromkeys(result.model for result in run.results):
        results = {r.row: r for r in run.results if r.model == model and r.fault is None}
        drawings = {"targets": _draw_targets, "speeds": _draw_speeds, "stall": _draw_stall}
        for name, draw in drawings.items():
            figure = draw(results)
            if figure is not None:
                path = folder / f"{model}-{name}.png"
                figure.suptitle(f"{model}: {figure.get_suptitle()}")
                figure.text(0.01, 0.005, _caption(run), fontsize=6, color="#666666")
                figure.savefig(path, dpi=120)
                written.append(path)
    return written


def _caption(run: Run) -> str:
    loads = f"load {run.load_at_start[0]} → {run.load_at_end[0]}"
    return (
        f"{machine_line(run.machine)}; {run.began_at}, {loads}{', quick' if run.is_quick else ''}"
    )


def _new(title: str, *, num_axes: int = 1, height: float = 4.0) -> tuple[Any, Any]:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # Room below for the caption.
    layout = ConstrainedLayoutEngine(rect=(0, 0.03, 1, 0.97))
    figure = Figure(figsize=(9, height), layout=layout)
    figure.suptitle(title)
    return figure, figure.subplots(1, num_axes, squeeze=False)[0]


def _draw_targets(results: Mapping[str, RowResult]) -> Any:
    """Each figure by its target, on a scale on which right of 1 is better, whatever the sense."""
    figures = [f for result in results.values() for f in result.figures if f.target is not None]
    if not figures:
        return None
    picture, (axes,) = _new("how far from its target", height=1.2 + 0.45 * len(figures))
    for place, figure in enumerate(reversed(figures)):
        assert figure.target is not None
        bound = figure.target.bound
        inverse = figure.target.sense == "≤"
        # A cost may be measured as nothing, or a little less.
        scores = [bound / max(run, bound / 100) if inverse else run / bound for run in figure.runs]
        colour = MET if figure.is_met else MISSED
        axes.plot(scores, [place] * len(scores), "o", color=colour, alpha=0.4, markersize=5)
        axes.plot([median(scores)], [place], "|", color=colour, markersize=18, markeredgewidth=3)
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(figures)), [f.what.strip() for f in reversed(figures)], fontsize=7)
    axes.set_xlabel("short of the target ←  1 = at it  → better   (dots: runs, bar: median)")
    return picture


def _draw_speeds(results: Mapping[str, RowResult]) -> Any:
    rows = [results[name] for name in SPEED_ROWS if name in results]
    if not rows:
        return None
    picture, all_axes = _new("tokens a second", num_axes=len(rows))
    for axes, result in zip(all_axes, rows, strict=True):
        speeds: Mapping[str, Sequence[Speed]] = result.raw["speeds"]
        for place, runs in enumerate(speeds.values()):
            values = [speed.tokens_per_s for speed in runs]
            axes.bar(place, median(values), color=PLAIN, alpha=0.75)
            axes.plot([place] * len(values), values, "o", color="#222222", markersize=3)
        axes.set_xticks(range(len(speeds)), list(speeds))
        axes.set_title(f"{result.row} (--strategy {result.strategy})", fontsize=9)
    return picture


def _draw_stall(results: Mapping[str, RowResult]) -> Any:
    """The run whose longest gap is the middle one."""
    if "stall" not in results:
        return None
    stalls: Sequence[Stall] = results["stall"].raw["stalls"]
    by_gap = sorted(stalls, key=lambda stall: stall.longest_gap_s / stall.median_gap_s)
    stall = by_gap[len(by_gap) // 2]
    picture, (axes,) = _new("gaps of a running stream while a long prompt is read")
    times = stall.times_s
    gaps_ms = [1000 * (b - a) for a, b in itertools.pairwise(times)]
    axes.plot([t - stall.sent_s for t in times[1:]], gaps_ms, ".", color=PLAIN, markersize=3)
    axes.axvspan(0, stall.ended_s - stall.sent_s, color="#d9c27a", alpha=0.3, label="the prompt")
    axes.axhline(1000 * stall.median_gap_s, color="#333333", linewidth=1, label="median before")
    axes.axhline(4000 * stall.median_gap_s, color=MISSED, linewidth=1, label="4 × that")
    axes.set_yscale("log")
    axes.set_xlabel("seconds since the prompt was sent")
    axes.set_ylabel("gap, ms")
    axes.legend(fontsize=8)
    return picture
