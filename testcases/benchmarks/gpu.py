"""The comparison at real sizes, on one GPU: the gpt2 preset's shape and half a billion parameters, in bfloat16.

    python -m testcases.benchmarks.gpu

Where nothing can be downloaded, carry TRL as wheels: `pip download --no-deps -r testcases/benchmarks/trl.lock` on a
connected machine, then `pip install --no-index --find-links FOLDER` into .venv-bench there. Writes runs/bench/gpu.json:
response tokens per second of both trainers, and the share of the card's measured matrix rate that an update reaches.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from .floor import matrix_rate, update_operations
from .trainer import LABELS, OURS, OUT, TRL, TRL_PYTHON, compare, paired_ratio
from .workload import Workload

VOCABULARY = 50_257
SIZES = {
    "gpt2": Workload(12, 768, 12, VOCABULARY, batch=128, prompt=64, response=192, threads=8, precision="bf16"),
    "0.5B": Workload(24, 1280, 20, VOCABULARY, batch=64, prompt=64, response=192, threads=8, precision="bf16"),
}


def measure(pairs: int, updates: int) -> dict[str, Any]:
    """Everything that gpu.json holds."""
    rate = matrix_rate(1, "cuda", torch.bfloat16)
    contestants = (OURS, TRL) if TRL_PYTHON.exists() else (OURS,)
    report: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(),
        "matrix_rate": rate,
        "sizes": {},
    }
    for name, work in SIZES.items():
        result = compare(work, pairs, updates, contestants)
        operations = sum(update_operations(work).values())
        report["sizes"][name] = {
            LABELS[contestant]: {
                "tokens_per_second": work.batch * work.response / numbers["median"]["wall"],
                "share_of_matrix_rate": operations / numbers["median"]["wall"] / rate,
                **numbers,
            }
            for contestant, numbers in result.items()
        }
        if TRL in result:
            report["sizes"][name]["ratio"] = paired_ratio(result, TRL, OURS)
    return report


def show(report: dict[str, Any], console: Console) -> None:
    """The table of the comparison."""
    table = Table(title=f"\n{report['device']}, bfloat16", title_justify="left")
    for column in ("size", "", "response tokens / s", "share of the matrix rate"):
        table.add_column(column, justify="left" if column in ("size", "") else "right")
    for size, result in report["sizes"].items():
        for label in LABELS.values():
            if label in result:
                numbers = result[label]
                shares = f"{numbers['share_of_matrix_rate']:.0%}"
                table.add_row(size, label, f"{numbers['tokens_per_second']:,.0f}", shares)
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Compare, print, write; returns the exit status, 0 as well where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m testcases.benchmarks.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5, help="rounds of each size")
    parser.add_argument("--updates", type=int, default=2, help="updates of each trainer in one round")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("There is no GPU here, so the comparison at real sizes was left out.")
        return 0
    console = Console(highlight=False)
    report = measure(options.pairs, options.updates)
    show(report, console)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "gpu.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
