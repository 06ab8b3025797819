"""What one GPU does: the demo of preset gpt2 from end to end, and the comparison with TRL at real sizes, in bfloat16.

    make gpu     or python -m testcases.benchmarks.gpu; the same command again goes on where it was stopped

Never run by us: no machine with a GPU was at hand. The last size has the depth, width and vocabulary of Qwen2.5-0.5B.
Where nothing can be downloaded, carry TRL as wheels: `pip download --no-deps -r testcases/benchmarks/trl.lock` on a
connected machine, then `pip install --no-index --find-links FOLDER` into .venv-bench there. Writes runs/bench/gpu.json:
response tokens per second of both trainers and the peak of the card's memory.
"""

import argparse
import json
import sys
import time
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from ppo_by_hand.core.files import write_json
from solutions.demo import __main__ as capstone

from .relay import ROOT
from .trainer import LABELS, OURS, OUT, TRL, TRL_PYTHON, compare, paired_ratio
from .workload import Workload

VOCABULARY = 50_257
SIZES = {
    "gpt2": Workload(12, 768, 12, VOCABULARY, batch=128, prompt=64, response=192, threads=8, precision="bf16"),
    "0.5B": Workload(24, 1280, 20, VOCABULARY, batch=64, prompt=64, response=192, threads=8, precision="bf16"),
    "0.5B, 151,936 tokens": Workload(
        24, 896, 14, 151_936, batch=64, prompt=64, response=192, threads=8, precision="bf16", rollout=16, micro=4
    ),
}
FILE = OUT / "gpu.json"
DEMO = ROOT / "runs" / "gpu-demo"


def started() -> dict[str, Any]:
    """What an earlier call on this device has measured, or an empty report."""
    device = torch.cuda.get_device_name()
    found = json.loads(FILE.read_text()) if FILE.is_file() else {}
    if found.get("device") == device and "demo" in found:
        return found
    return {"date": time.strftime("%Y-%m-%d"), "device": device, "demo": None, "sizes": {}}


def measure(work: Workload, pairs: int, updates: int) -> dict[str, Any]:
    """One size: both trainers, or ours alone where TRL is not installed."""
    result = compare(work, pairs, updates, (OURS, TRL) if TRL_PYTHON.exists() else (OURS,))
    found: dict[str, Any] = {
        LABELS[contestant]: {"tokens_per_second": work.batch * work.response / numbers["median"]["wall"], **numbers}
        for contestant, numbers in result.items()
    }
    return found | ({"ratio": paired_ratio(result, TRL, OURS)} if TRL in result else {})


def demo() -> dict[str, Any]:
    """SFT, reward model, PPO and PPO without the KL penalty at the shape of GPT-2 124M; an interrupted one goes on."""
    going_on = (DEMO / "checkpoints").is_dir()
    start = time.perf_counter()
    code = capstone.main(["--preset", "gpt2", "--out", str(DEMO), *(["--resume"] if going_on else [])])
    if code:
        raise SystemExit(code)
    return {
        "seconds": round(time.perf_counter() - start),
        "was_resumed": going_on,
        "peak_gpu_mib": round(torch.cuda.max_memory_allocated() / 2**20),
        "summary": json.loads((DEMO / "summary.json").read_text()),
    }


def show(report: dict[str, Any], console: Console) -> None:
    """The table of the comparison."""
    table = Table(title=f"\n{report['device']}, bfloat16", title_justify="left")
    for column in ("size", "", "response tokens / s", "peak MiB"):
        table.add_column(column, justify="left" if column in ("size", "") else "right")
    for size, result in report["sizes"].items():
        for label in LABELS.values():
            if label in result:
                numbers = result[label]
                peak = f"{numbers['memory_mib'].get('gpu', 0):,.0f}"
                table.add_row(size, label, f"{numbers['tokens_per_second']:,.0f}", peak)
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Compare, print, write; returns the exit status, 0 as well where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m testcases.benchmarks.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5, help="rounds of each size")
    parser.add_argument("--updates", type=int, default=2, help="updates of each trainer in one round")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("There is no GPU here, so the demo and the comparison at real sizes were left out.")
        return 0
    console = Console(highlight=False)
    OUT.mkdir(parents=True, exist_ok=True)
    report = started()
    if report["demo"] is None:
        report["demo"] = demo()
        _write(report)
    for name, work in SIZES.items():
        if name not in report["sizes"]:
            report["sizes"][name] = measure(work, options.pairs, options.updates)
            _write(report)
    show(report, console)
    console.print(f"the demo: {report['demo']['seconds']} s, {report['demo']['peak_gpu_mib']:,} MiB; all is in {FILE}")
    return 0


def _write(report: dict[str, Any]) -> None:
    write_json(FILE, report)


if __name__ == "__main__":
    sys.exit(main())
