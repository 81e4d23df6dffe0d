"""What a run of the suite leaves: table, JSON, plots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from measuring.machine import Machine, describe_machine, load_averages, machine_line
from measuring.speed import Speed
from report.document import Run, write_json
from report.plots import write_plots
from report.table import brief, number, table
from rows.figure import Figure, RowResult, at_least, at_most
from rows.sizes import sizes_for
from rows.stall import Stall

MACHINE = Machine(
    processor="Abacus",
    num_cores=2,
    memory_bytes=24 * 2**30,
    system="Linux 6",
    python="3.11.7",
    maxi_mlx="0.1.0",
    mlx="0.32.4",
    mlx_lm="0.32.2",
    backend="cpu",
    blas="OpenBLAS 0.3",
)
SPEEDS = {"maxi-mlx": [Speed(10, 1.0, (0.1,)), Speed(10, 2.0, (0.1,))]}
STALL = Stall(
    times_s=[float(second) for second in range(20)],
    sent_s=9.0,
    ended_s=12.0,
    prompt_alone_s=2.0,
    prompt_beside_s=3.0,
)
RESULTS = (
    RowResult(
        row="one-stream",
        model="tiny",
        strategy="balanced",
        figures=[
            Figure(what="speed", target=at_least(0.9), runs=[0.5, 0.95], detail="from this"),
            Figure(what="  beside", target=None, runs=[0.3]),
        ],
        raw={"speeds": SPEEDS},
    ),
    RowResult(
        row="stall",
        model="tiny",
        strategy="balanced",
        figures=[Figure(what="cost", target=at_most(0.1), unit="ms", runs=[-0.2, 0.01, 0.02])],
        raw={"stalls": [STALL]},
    ),
    RowResult(row="memory", model="tiny", strategy="", fault="it fell:\nValueError: oops"),
)


def run(results: tuple[RowResult, ...] = RESULTS) -> Run:
    return Run(
        began_at="2026-11-29T20:00:00+00:00",
        seconds=61.4,
        machine=MACHINE,
        load_at_start=(0.5, 1.0, 2.0),
        load_at_end=(1.5, 1.1, 2.0),
        is_quick=True,
        sizes={"tiny": sizes_for(is_tiny=True, is_quick=True)},
        results=results,
    )


def test_the_table() -> None:
    lines = table(run()).splitlines()
    assert lines[0] == machine_line(MACHINE)
    assert lines[1] == (
        "quick run: no proof; 2026-11-29T20:00:00+00:00, 61 s; load average 0.5 1.0 2.0 → 1.5 1.1 "
        "2.0"
    )
    assert lines[3] == "tiny, 2 runs"
    rows = [" ".join(line.split()) for line in lines[5:9]]
    assert rows == [
        "speed ≥ 0.9 0.725 0.500-0.950 NOT MET balanced from this",
        "beside 0.300 balanced",
        "cost ≤ 0.1 ms 0.010 ms -0.200-0.020 met balanced",
        "memory broke off: ValueError: oops",
    ]


def test_a_row_by_itself() -> None:
    assert brief(RESULTS[0]).splitlines() == [
        "  speed ≥ 0.9 0.725 0.500-0.950 NOT MET balanced from this",
        "    beside 0.300 balanced",
    ]
    assert brief(RESULTS[2]) == "  broke off: it fell:\nValueError: oops"


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.500"), (-0.0123, "-0.012"), (1.0, "1.00"), (37.66, "37.7")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_the_file(tmp_path: Path) -> None:
    write_json(run(), tmp_path / "suite.json")
    document: dict[str, Any] = json.loads((tmp_path / "suite.json").read_text())
    assert document["machine"]["processor"] == "Abacus"
    assert document["load_at_end"] == [1.5, 1.1, 2.0]
    speed, beside = document["results"][0]["figures"]
    assert (speed["median"], speed["is_met"], speed["target"]["bound"]) == (0.725, False, 0.9)
    assert (beside["target"], beside["is_met"]) == (None, None)
    assert document["results"][0]["raw"]["speeds"]["maxi-mlx"][1]["seconds"] == 2.0
    assert document["results"][2]["fault"] == "it fell:\nValueError: oops"


@pytest.mark.slow
def test_plots_of_what_was_measured(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_plots(run(), tmp_path)
    names = ["tiny-targets.png", "tiny-speeds.png", "tiny-stall.png"]
    assert [path.name for path in written] == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    assert write_plots(run(RESULTS[2:]), tmp_path) == []


def test_this_machine() -> None:
    machine = describe_machine()
    assert machine.num_cores >= 1
    assert machine.memory_bytes > 2**28
    assert machine.processor
    assert machine.mlx.startswith("0.")
    assert len(load_averages()) == 3
