"""The command behind `make demo`.

python -m solutions.demo --preset tiny --seed 0 --out runs/demo

`python -m tutorial.demo` is the same on a student's own lessons.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from ppo_by_hand.core.progress import quiet
from ppo_by_hand.core.shapes import check_number
from tiny_models.gold import GOLD_MAX

from .folder import FINE, WRONG, open_folder, run_to_the_end
from .stack import Unfinished, check_finished, check_right, own_folder, verdict

if TYPE_CHECKING:
    from .run import CapstoneRun, Say

SAMPLES = 4


def main(arguments: list[str] | None = None) -> int:
    """Run the capstone; returns the exit code: 0, 1 for bad input or an error, and those of `folder`."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="tiny", help="tiny, small or gpt2 (PRESET=)")
    parser.add_argument("--seed", type=int, default=0, help="decides every random number (SEED=)")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for results (OUT=)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out (RESUME=1)")
    options = parser.parse_args(arguments)
    options.out = options.out.expanduser()
    console = Console(highlight=False, markup=False)
    quiet()  # what it would warn of is said here in one sentence
    if (folder := own_folder()) is not None:
        try:
            check_finished(folder)
            check_right(folder)
        except Unfinished as error:
            print(error, file=sys.stderr)
            return WRONG
    say = functools.partial(console.print, soft_wrap=True)
    return run_to_the_end(lambda: _demo(options, console, say), options.out)


def _demo(options: argparse.Namespace, console: Console, say: Say) -> int:
    from .figures import draw_figures
    from .run import make_plan, run_capstone, write_summary

    start, out = time.perf_counter(), options.out
    check_number("SEED", options.seed, 0, 2**32 - 1)
    plan = make_plan(options.preset, options.seed, out, say)
    open_folder(out, plan.settings(), options.resume)
    run = run_capstone(plan)
    files = [*draw_figures(run), write_summary(run)]
    console.print(_table(run))
    console.print(_samples(run))
    for file in files:
        console.print(str(file), style="dim")
    if own_folder():
        say(f"\n{verdict(run.summary())}")
    console.print(f"\n{time.perf_counter() - start:.0f} s. The picture to look at: {out / 'overoptimization.png'}")
    return FINE


def _table(run: CapstoneRun) -> Table:
    """Gold, proxy, KL and grammatical share of the three policies."""
    plan = run.plan
    table = Table(title=f"\npreset {plan.preset.name}, seed {plan.seed}: the three policies", title_justify="left")
    for column in ("", f"gold (max {GOLD_MAX:.0f})", "proxy (std)", "KL (nats)", "grammatical"):
        table.add_column(column, justify="left" if not column else "right")
    for name, one in run.evaluations().items():
        table.add_row(name, f"{one.gold:.2f}", f"{one.proxy:+.2f}", f"{max(one.kl, 0.0):.1f}", f"{one.valid:.0%}")
    return table


def _samples(run: CapstoneRun) -> Table:
    """What the three policies answer to the same prompts."""
    table = Table(title="\nthe same prompts, before and after", title_justify="left", show_lines=True)
    evaluations = run.evaluations()
    for column in ("prompt", *evaluations):
        table.add_column(column, ratio=1)
    for number in range(SAMPLES):
        table.add_row(run.plan.prompts[number], *(one.responses[number] for one in evaluations.values()))
    return table


if __name__ == "__main__":
    sys.exit(main())
