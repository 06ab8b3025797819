"""The command behind `make demo`.

python -m solutions.demo --preset tiny --seed 0 --out runs/demo

`python -m tutorial.demo` is the same on a student's own lessons.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_text
from ppo_by_hand.core.progress import quiet
from ppo_by_hand.core.shapes import check_number
from tiny_models.gold import GOLD_MAX

from .folder import FINE, WRONG, open_folder, run_to_the_end
from .stack import LEFT_OUT, check_finished, check_right, own_folder, verdict


def main(arguments: list[str] | None = None) -> int:
    """Run the capstone; returns the exit code: 0, 1 for bad input or an error, and those of `folder`."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="tiny", help="tiny, small or gpt2 (PRESET=)")
    parser.add_argument("--seed", type=int, default=0, help="decides every random number (SEED=)")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for results (OUT=)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out (RESUME=1)")
    options = parser.parse_args(arguments)
    options.out = options.out.expanduser()
    quiet()  # what it would warn of is said here in one sentence
    if (folder := own_folder()) is not None:
        try:
            check_finished(folder, "demo", LEFT_OUT)
            check_right(folder)
        except ValueError as error:
            print(error, file=sys.stderr)
            return WRONG
    return run_to_the_end(lambda: _demo(options), options.out)


def _demo(options: argparse.Namespace) -> int:
    from .figures import draw_figures  # with torch, and all lessons
    from .run import Capstone

    start, out = time.perf_counter(), options.out
    check_number("SEED", options.seed, 0, 2**32 - 1)
    run = Capstone(options.preset, options.seed, out)
    open_folder(out, {"PRESET": run.preset.name, "SEED": run.seed, **asdict(run.preset)}, options.resume)
    run.run()
    draw_figures(run)
    write_text(out / "summary.json", json.dumps(run.summary(), indent=2) + "\n")
    _say_results(run)
    if own_folder() and options.preset == "tiny":
        print(f"\n{verdict(run.summary())}")
    print(f"\n{time.perf_counter() - start:.0f} s. The picture to look at: {out / 'overoptimization.png'}")
    return FINE


def _say_results(run: Any) -> None:
    print(f"\npreset {run.preset.name}, seed {run.seed}: the three policies\n")
    print(f"{'':22}  gold (max {GOLD_MAX:.0f})  proxy (std)  KL (nats)  grammatical")
    evaluations = {"SFT": run.before, "PPO": run.ppo.final, "PPO without KL penalty": run.no_kl.final}
    for name, one in evaluations.items():
        print(f"{name:22} {one.gold:13.2f} {one.proxy:+12.2f} {max(one.kl, 0.0):10.1f} {one.valid:12.0%}")
    print("\nthe same prompts, before and after")
    for number, prompt in enumerate(run.prompts[:4]):
        print(f"\n{prompt}")
        for name, one in evaluations.items():
            print(f"    {name:22}  {one.responses[number]}")


if __name__ == "__main__":
    sys.exit(main())
