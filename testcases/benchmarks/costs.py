"""How the cost of an update grows: with the batch, with the response length, with the model; and over 500 updates.

    python -m testcases.benchmarks.costs

Writes runs/bench/costs.json. Costs are CPU time over response tokens, medians over rounds in which every
point has its turn. A batch of twice the rows should cost twice as much, so the first line should be flat.
"""

import argparse
import dataclasses
import os
import sys
import time
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from .trainer import OURS, start, written
from .workload import Workload

BASE = Workload()
GROWTH: dict[str, tuple[Workload, ...]] = {
    "batch": tuple(dataclasses.replace(BASE, batch=batch) for batch in (16, 32, 64, 128, 256)),
    "response": tuple(dataclasses.replace(BASE, response=response) for response in (12, 24, 48, 96)),
    "size": (BASE, Workload(n_layer=4, n_embd=128), Workload(n_layer=6, n_embd=256)),
}
LONG_RUN = 500


def growth(works: tuple[Workload, ...], rounds: int) -> list[dict[str, Any]]:
    """One row for each workload: its size, and the CPU and wall-clock time of one response token."""
    children = [start(OURS, work) for work in works]
    try:
        answers = [[child.run(1) for child in children] for _ in range(rounds + 1)][1:]
    finally:
        for child in children:
            child.close()
    return [_row(work, [answer[number] for answer in answers]) for number, work in enumerate(works)]


def _row(work: Workload, answers: list[dict[str, Any]]) -> dict[str, Any]:
    tokens = work.batch * work.response
    return {
        "workload": dataclasses.asdict(work),
        "name": work.name,
        "parameters": sum(parameter.numel() for parameter in work.language_model(0).parameters()),
        "cpu_us_per_token": median(answer["samples"][0]["cpu"] for answer in answers) / tokens * 1e6,
        "wall_us_per_token": median(answer["samples"][0]["wall"] for answer in answers) / tokens * 1e6,
        "peak_mib": answers[-1]["peak_mib"] - answers[-1]["before_mib"],
    }


def long_run(updates: int) -> list[float]:
    """Resident memory in MiB at ten points of a run of that many small updates."""
    with start(OURS, Workload(batch=16, response=8, threads=1)) as child:
        return [child.run(updates // 10)["now_mib"] for _ in range(10)]


def measure(rounds: int, updates: int) -> dict[str, Any]:
    """Everything that costs.json holds."""
    report: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "load_before": os.getloadavg()[0]}
    for name, works in GROWTH.items():
        report[name] = growth(works, rounds)
        for row in report[name]:
            row["x"] = row["parameters"] / 1e6 if name == "size" else row["workload"][name]
    report["long_run_mib"] = long_run(updates)
    report["load_after"] = os.getloadavg()[0]
    return report


def show(report: dict[str, Any], console: Console) -> None:
    """The table of the growth."""
    table = Table(title=f"\ncost of one response token (load {report['load_before']:.1f})", title_justify="left")
    for column in ("grows", "to", "CPU us", "wall us", "peak MiB"):
        table.add_column(column, justify="left" if column == "grows" else "right")
    for name in GROWTH:
        for row in report[name]:
            at = row["name"] if name == "size" else str(row["x"])
            numbers = (f"{row[key]:.0f}" for key in ("cpu_us_per_token", "wall_us_per_token", "peak_mib"))
            table.add_row(name, at, *numbers)
        table.add_section()
    console.print(table)
    memory = report["long_run_mib"]
    console.print(f"resident memory after 10 % and 100 % of the long run: {memory[0]:.0f} and {memory[-1]:.0f} MiB")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m testcases.benchmarks.costs", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--updates", type=int, default=LONG_RUN, help="of the run whose memory is watched")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    report = measure(options.rounds, options.updates)
    show(report, console)
    console.print(written(report, "costs"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
