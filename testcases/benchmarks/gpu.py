"""What one GPU does: TRL's trainer and ours at real sizes, in bfloat16, and the demo of preset gpt2 from end to end.

    make gpu

It writes runs/bench/gpu.json after every size. Never run by us: no machine with a GPU was at hand. The last size has
the depth, width and vocabulary of Qwen2.5-0.5B. If your environment has a torch of its own, install
'.[course,benchmarks]' and trl==1.12.0 beside it, and run `python -m testcases.benchmarks.gpu` there.
"""

import json
import sys
import time
from importlib.util import find_spec
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from solutions.demo import __main__ as capstone

from .relay import ROOT
from .trainer import LABELS, OURS, TRL, TRL_PYTHON, compare, paired_ratio, written
from .workload import Workload

VOCABULARY = 50_257
REAL = {"prompt": 64, "response": 192, "threads": 8, "precision": "bf16"}
SIZES = {
    "gpt2": Workload(12, 768, 12, VOCABULARY, batch=128, **REAL),
    "0.5B": Workload(24, 1280, 20, VOCABULARY, batch=64, **REAL),
    "0.5B, 151,936 tokens": Workload(24, 896, 14, 151_936, batch=64, rollout=16, micro=4, **REAL),
}
PAIRS, UPDATES = 5, 2
"""Rounds of each size, and updates of each trainer in one."""
DEMO = ROOT / "runs" / "gpu-demo"


def measure(work: Workload, pairs: int, updates: int) -> dict[str, Any]:
    """One size: both trainers, or ours alone. What does not fit on the card is said, and the next size follows."""
    python = sys.executable if find_spec("trl") else TRL_PYTHON if TRL_PYTHON.exists() else None
    try:
        result = compare(work, pairs, updates, (OURS, TRL) if python else (OURS,), python or "")
    except RuntimeError as error:
        return {"failed": str(error).splitlines()[-1]}
    found: dict[str, Any] = {
        LABELS[contestant]: {"tokens_per_second": work.batch * work.response / numbers["median"]["wall"], **numbers}
        for contestant, numbers in result.items()
    }
    return found | ({"ratio": paired_ratio(result, TRL, OURS)} if TRL in result else {})


def demo() -> dict[str, Any]:
    """SFT, reward model, PPO and PPO without the KL penalty at the shape of GPT-2 124M; an interrupted one goes on."""
    start = time.perf_counter()
    if code := capstone.main(["--preset", "gpt2", "--out", str(DEMO), *["--resume"] * (DEMO / "checkpoints").is_dir()]):
        raise SystemExit(code)
    return {
        "seconds": round(time.perf_counter() - start),
        "peak_gpu_mib": round(torch.cuda.max_memory_allocated() / 2**20),
        "summary": json.loads((DEMO / "summary.json").read_text()),
    }


def show(report: dict[str, Any], console: Console) -> None:
    """The table of the comparison."""
    table = Table(title=f"\n{report['device']}, bfloat16, {report['date']}, torch {report['torch']}")
    for column in ("size", "", "response tokens / s", "peak MiB"):
        table.add_column(column, justify="left" if column in ("size", "") else "right")
    for size, result in report["sizes"].items():
        for label in LABELS.values():
            if label in result:
                numbers = result[label]
                peak = f"{numbers['memory_mib'].get('gpu', 0):,.0f}"
                table.add_row(size, label, f"{numbers['tokens_per_second']:,.0f}", peak)
        if "failed" in result:
            table.add_row(size, result["failed"], "-", "-")
    console.print(table)


def main() -> int:
    """Compare, print, write; returns the exit status, 0 as well where there is no GPU."""
    if not torch.cuda.is_available():
        print("There is no GPU here, so the demo and the comparison at real sizes were left out.")
        return 0
    console = Console(highlight=False)
    about = {"date": time.strftime("%Y-%m-%d"), "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    report: dict[str, Any] = {**about, "sizes": {}}
    for name, work in SIZES.items():
        report["sizes"][name] = measure(work, PAIRS, UPDATES)
        written(report, "gpu")
    show(report, console)
    report["demo"] = demo()
    seconds, peak = report["demo"]["seconds"], report["demo"]["peak_gpu_mib"]
    console.print(f"the demo: {seconds} s, {peak:,} MiB. All is in {written(report, 'gpu')}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
