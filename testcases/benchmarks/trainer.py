"""The course's trainer, TRL 1.12.0's and the bare model passes, a few updates of each in turn; medians of the pairs.

    python -m testcases.benchmarks.trainer

Writes runs/bench/trainer.json. What each of the three does is said in run_ours.py, run_trl.py and
run_bare.py. The JSON holds:

    ratio           how many of our updates fit into one of TRL's, by size: median over the pairs, wall clock; both
                    train the very same models, those of the course's builder
    ratio_cpu       the same by CPU time, which other programs on the machine disturb less
    over_bare       one of our updates over the bare passes of the same models on the same batches
    over_bare_cpu   the same by CPU time
    sizes           the raw seconds of each update, and memory
"""

import argparse
import os
import platform
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from tqdm import tqdm

from ppo_by_hand.core.files import write_json
from testcases.course.records import processor_name

from .relay import ROOT, Child
from .workload import Workload

OURS, TRL, BARE = "run_ours", "run_trl", "run_bare"
LABELS = {OURS: "PPO by Hand", TRL: "TRL 1.12.0", BARE: "bare passes"}
SIZES = (Workload(n_layer=2, n_embd=64), Workload(n_layer=4, n_embd=128))
TRL_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
OUT = ROOT / "runs" / "bench"
FIGURES = {
    "ratio": (TRL, OURS, "wall"),
    "ratio_cpu": (TRL, OURS, "cpu"),
    "over_bare": (OURS, BARE, "wall"),
    "over_bare_cpu": (OURS, BARE, "cpu"),
}
"""Name -> whose seconds, over whose, by which clock."""


def compare(
    work: Workload, pairs: int, updates: int, contestants: tuple[str, ...], trl_python: Path | str = TRL_PYTHON
) -> dict[str, Any]:
    """Run the contestants in turn.

    Args:
        work: what is timed.
        pairs: rounds; in each, every contestant runs.
        updates: in one round, for each contestant.
        contestants: OURS, TRL, BARE or some of them.
        trl_python: the interpreter that has TRL.

    Returns:
        For each: `rounds` (mean seconds of an update in each round: wall and cpu), `median` of each of those, and
        memory in MiB before the first update and at the peak.
    """
    with ExitStack() as stack:
        children = {name: stack.enter_context(start(name, work, trl_python)) for name in contestants}
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
        answers = {name: child.run(updates) for name, child in children.items()}  # to warm up
        for _ in tqdm(range(pairs), desc=work.name, unit="round", leave=False):
            for name, child in children.items():
                answers[name] = child.run(updates)
                samples = answers[name]["samples"]
                rounds[name].append({clock: mean(one[clock] for one in samples) for clock in ("wall", "cpu")})
    return {
        name: {
            "rounds": rounds[name],
            "median": {key: median(one[key] for one in rounds[name]) for key in rounds[name][0]},
            "memory_mib": {key: answers[name][f"{key}_mib"] for key in ("before", "peak", "gpu")},
        }
        for name in contestants
    }


def paired_ratio(result: dict[str, Any], above: str, below: str, clock: str = "wall") -> float:
    """Median over the rounds of one contestant's seconds over another's in the same round."""
    pairs = zip(result[above]["rounds"], result[below]["rounds"], strict=True)
    return median(one[clock] / other[clock] for one, other in pairs)


def start(name: str, work: Workload, trl_python: Path | str = TRL_PYTHON) -> Child:
    """A contestant in its own process, TRL in its own environment."""
    python = str(trl_python) if name == TRL else sys.executable
    return Child(name, [python, "-m", f"{__package__}.{name}", work.to_json()], work.threads)


def show(report: dict[str, Any]) -> None:
    """The comparison, some lines for each size; MiB is the peak of the whole process."""
    machine = report["machine"]
    print(f"one PPO update: {machine['processor']}, {machine['threads']} threads, load {machine['load_before']:.1f}")
    for size, result in report["sizes"].items():
        print(f"\n{size:<14}{'ms':>7}{'CPU ms':>8}{'MiB':>7}{'x bare':>8}{'x bare, CPU':>13}")
        bare = result[LABELS[BARE]]["median"]
        for label in LABELS.values():
            wall, cpu = (result[label]["median"][clock] for clock in ("wall", "cpu"))
            ratios = f"{wall / bare['wall']:>8.2f}{cpu / bare['cpu']:>13.2f}"
            peak = result[label]["memory_mib"]["peak"]
            print(f"{label:<14}{wall * 1e3:>7.0f}{cpu * 1e3:>8.0f}{peak:>7.0f}{ratios}")
        print(
            f"TRL / ours {report['ratio'][size]:.2f} (CPU time {report['ratio_cpu'][size]:.2f}), "
            f"ours / bare {report['over_bare'][size]:.2f} (CPU time {report['over_bare_cpu'][size]:.2f})"
        )


def main(arguments: list[str] | None = None) -> int:
    """Compare, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m testcases.benchmarks.trainer", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=3, help="rounds of each size")
    parser.add_argument("--updates", type=int, default=5, help="updates of each contestant in one round")
    options = parser.parse_args(arguments)
    if not TRL_PYTHON.exists():
        print("error: expected TRL in .venv-bench, got none; run make bench, which installs it", file=sys.stderr)
        return 1
    report: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {
            "processor": f"{processor_name()} x {os.cpu_count()}",
            "threads": SIZES[0].threads,
            "load_before": os.getloadavg()[0],
        },
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        **{name: {} for name in (*FIGURES, "sizes")},
    }
    for work in SIZES:
        print(f"{work.name}: {len(LABELS)} contestants, {options.pairs} rounds of {options.updates} updates ...")
        result = compare(work, options.pairs, options.updates, (BARE, OURS, TRL))
        for figure, pair in FIGURES.items():
            report[figure][work.name] = paired_ratio(result, *pair)
        report["sizes"][work.name] = {LABELS[name]: numbers for name, numbers in result.items()}
    report["machine"]["load_after"] = os.getloadavg()[0]
    show(report)
    print(write_json(OUT / "trainer.json", report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
