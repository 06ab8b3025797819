"""What one GPU does: TRL's trainer and ours at real sizes, in bfloat16, and the demo of preset gpt2 from end to end.

    make gpu                              what `make` installs, and TRL beside it
    make gpu PYTHON=/opt/python WHEELS=w  the torch of that interpreter, and TRL from the wheels in a folder

It ends by itself (MINUTES=9), writes runs/bench/gpu.json after every size, and goes on when it is called again. Never
run by us: no machine with a GPU was at hand. The last size has the depth, width and vocabulary of Qwen2.5-0.5B. For a
machine without a network: `pip download -d w --no-deps -r testcases/benchmarks/trl.lock` on one that has it.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

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


class TimeIsUp(BaseException):
    """MINUTES have passed: as with Ctrl-C, nothing on the way handles it."""


def started() -> dict[str, Any]:
    """What an earlier call on this device and at this commit has measured, or an empty report."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    about = {"device": torch.cuda.get_device_name(), "commit": git.stdout.strip(), "torch": torch.__version__}
    found = json.loads(FILE.read_text()) if FILE.is_file() else {}
    if {name: found.get(name) for name in about} == about:
        return found
    return {"date": time.strftime("%Y-%m-%d"), **about, "sizes": {}, "demo": None}


def trl_python() -> Path | None:
    """The interpreter that has TRL: this one, or make bench's."""
    if find_spec("trl"):
        return Path(sys.executable)
    return TRL_PYTHON if TRL_PYTHON.exists() else None


def measure(work: Workload, pairs: int, updates: int) -> dict[str, Any]:
    """One size: both trainers, or ours alone. What does not fit on the card is said, and the next size follows."""
    python = trl_python()
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
    """SFT, reward model, PPO and PPO without the KL penalty at the shape of GPT-2 124M; an interrupted one goes on.

    Raises:
        TimeIsUp: it was ended before it was finished.
    """
    going_on = (DEMO / "checkpoints").is_dir()
    start = time.perf_counter()
    if code := capstone.main(["--preset", "gpt2", "--out", str(DEMO), *(["--resume"] if going_on else [])]):
        raise SystemExit(code)
    return {
        "seconds": round(time.perf_counter() - start),
        "was_resumed": going_on,
        "peak_gpu_mib": round(torch.cuda.max_memory_allocated() / 2**20),
        "summary": json.loads((DEMO / "summary.json").read_text()),
    }


def show(report: dict[str, Any]) -> None:
    """The table of the comparison, in Markdown."""
    print(f"\n{report['device']}, bfloat16, {report['date']}, commit {report['commit']}, torch {report['torch']}\n")
    print("| size | | response tokens / s | peak MiB |\n| --- | --- | ---: | ---: |")
    for size, result in report["sizes"].items():
        for label, numbers in result.items():
            if label in LABELS.values():
                peak = numbers["memory_mib"].get("gpu", 0)
                print(f"| {size} | {label} | {numbers['tokens_per_second']:,.0f} | {peak:,.0f} |")
        if "failed" in result:
            print(f"| {size} | {result['failed']} | - | - |")


def draw(report: dict[str, Any], file: Path) -> None:
    """Tokens per second by size, and the demo's reward and KL over its updates."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (speed, course) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    labels = [label for label in LABELS.values() if any(label in result for result in report["sizes"].values())]
    for shift, label in enumerate(labels):
        bars = [result.get(label, {}).get("tokens_per_second", 0.0) for result in report["sizes"].values()]
        speed.bar([place + 0.4 * shift for place in range(len(bars))], bars, width=0.4, label=label)
    speed.set_xticks([place + 0.2 * (len(labels) - 1) for place in range(len(report["sizes"]))], list(report["sizes"]))
    speed.set(title=report["device"], ylabel="response tokens per second")
    speed.legend()
    logs = sorted(DEMO.rglob("metrics.jsonl"))
    rows = [json.loads(line) for line in logs[0].read_text().splitlines()] if logs else []
    for name, label in {"score": "proxy reward", "kl": "KL (nats)"}.items():
        course.plot([row[name] for row in rows], label=label)
    course.set(title="PPO on the shape of GPT-2 124M", xlabel="update")
    course.legend()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Compare, print, write; returns the exit status, 0 as well where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m testcases.benchmarks.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5, help="rounds of each size")
    parser.add_argument("--updates", type=int, default=2, help="updates of each trainer in one round")
    parser.add_argument("--minutes", type=float, default=9.0, help="after which it ends by itself (MINUTES=)")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("There is no GPU here, so the demo and the comparison at real sizes were left out.")
        return 0
    OUT.mkdir(parents=True, exist_ok=True)
    if trl_python() is None:
        print("TRL isn't installed here, so this is ours alone; WHEELS=folder brings it along.")
    report = started()
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, 60 * options.minutes)
    try:
        for name, work in SIZES.items():
            if name not in report["sizes"]:
                report["sizes"][name] = measure(work, options.pairs, options.updates)
                write_json(FILE, report)
        report["demo"] = report["demo"] or demo()
        write_json(FILE, report)
        said = f"the demo: {report['demo']['seconds']} s, {report['demo']['peak_gpu_mib']:,} MiB"
    except TimeIsUp:
        said = f"{options.minutes:g} minutes are over; the same command goes on from here"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    show(report)
    draw(report, FILE.with_suffix(".png"))
    print(f"\n{said}. All is in {FILE}, with a picture beside it.")
    return 0


def _end(*_: Any) -> None:
    raise TimeIsUp


if __name__ == "__main__":
    sys.exit(main())
