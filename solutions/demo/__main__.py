"""The command behind `make demo`.

python -m solutions.demo --preset tiny --seed 0 --out runs/demo

`python -m tutorial.demo` is the same on a student's own lessons.
"""

from __future__ import annotations

import argparse
import functools
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from ppo_by_hand.core.progress import quiet
from ppo_by_hand.core.shapes import check_number
from tiny_models.gold import GOLD_MAX
from tiny_models.presets import HUB

from .folder import open_folder, run_to_the_end, says_how_to_go_on
from .stack import Unfinished, check_finished, not_loaded, own_folder

if TYPE_CHECKING:
    from .run import CapstoneRun, Say

SAMPLES = 4


def main(arguments: list[str] | None = None) -> int:
    """Run the capstone; returns the exit code: 0, 1 for bad input or an error, and those of `folder`."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="tiny", help="tiny, small, gpt2 or hub (PRESET=)")
    parser.add_argument("--seed", type=int, default=0, help="decides every random number (SEED=)")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for results (OUT=)")
    parser.add_argument("--policy", default="", help="hub only: a causal language model, name or folder (POLICY=)")
    parser.add_argument("--reward", default="", help="hub only: a reward model, or module:function (REWARD=)")
    parser.add_argument("--prompts", default="", help="hub only: a text file, one prompt a line, or JSONL (PROMPTS=)")
    parser.add_argument("--value", default="", help="hub only: what the critic starts from (VALUE=)")
    parser.add_argument("--set", default="", dest="settings", help="hub only: num_updates=200 kl_coef=0.1 (SET=)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out (RESUME=1)")
    options = parser.parse_args(arguments)
    console = Console(highlight=False, markup=False)
    say = functools.partial(console.print, soft_wrap=True)
    quiet()  # what it would warn of is said here in one sentence
    options.out = options.out.expanduser()
    return run_to_the_end(lambda: _run(options, console, say), options.out)


def _run(options: argparse.Namespace, console: Console, say: Say) -> int:
    check_number("SEED", options.seed, 0, 2**32 - 1)
    try:
        _check_stack()
    except Unfinished as error:
        print(error, file=sys.stderr)
        return 1
    if options.preset == HUB:
        return _hub(options, say)
    if options.policy or options.reward or options.prompts or options.settings or options.value:
        raise ValueError(
            f"expected POLICY, REWARD, PROMPTS, VALUE and SET with PRESET=hub only, got {options.preset}; add it"
        )
    return _demo(options, console, say)


def _check_stack() -> None:
    """
    Raises:
        Unfinished: the student's lessons cannot run.
    """
    if (folder := own_folder()) is None:
        return
    check_finished(folder)
    try:
        from . import hub, run  # noqa: F401
    except (Exception, SystemExit) as error:  # a student's file may raise anything
        raise Unfinished(f"error: {not_loaded(error, folder)}") from error


def _hub(options: argparse.Namespace, say: Say) -> int:
    from .hub import run_hub

    policy, reward, prompts = map(os.path.expanduser, (options.policy, options.reward, options.prompts))
    file = Path(prompts) if prompts else None
    settings = options.settings + (f" value={shlex.quote(os.path.expanduser(options.value))}" if options.value else "")
    return run_hub(policy, reward, file, options.seed, options.out, say, settings, options.resume)


def _demo(options: argparse.Namespace, console: Console, say: Say) -> int:
    from .comparison import comparison, reference_runs, verdict
    from .figures import draw_figures
    from .run import make_plan, run_capstone, write_summary

    start, out = time.perf_counter(), options.out
    plan = make_plan(options.preset, options.seed, out, say)
    open_folder(out, plan.settings(), options.resume)
    with says_how_to_go_on(out):
        run = run_capstone(plan)
        files = [*draw_figures(run), write_summary(run)]
    console.print(_table(run))
    console.print(_samples(run))
    for file in files:
        console.print(str(file), style="dim")
    if own_folder() and (runs := reference_runs(plan.preset.name)):
        console.print(comparison(run.summary(), runs))
        say(f"\n{verdict(run.summary(), runs)}")
    console.print(f"\n{time.perf_counter() - start:.0f} s. The picture to look at: {out / 'overoptimization.png'}")
    return 0


def _table(run: CapstoneRun) -> Table:
    """Gold, proxy, KL and grammatical share of the three policies."""
    table = Table(
        title=f"\npreset {run.plan.preset.name}, seed {run.plan.seed}: the three policies", title_justify="left"
    )
    for column in ("", f"gold (max {GOLD_MAX:.0f})", "proxy (std)", "KL (nats)", "valid"):
        table.add_column(column, justify="left" if not column else "right")
    for name, evaluation in run.evaluations().items():
        table.add_row(
            name,
            f"{evaluation.gold:.2f}",
            f"{evaluation.proxy:+.2f}",
            f"{max(evaluation.kl, 0.0):.1f}",
            f"{evaluation.valid:.0%}",
        )
    return table


def _samples(run: CapstoneRun) -> Table:
    """What the three policies answer to the same prompts."""
    table = Table(title="\nthe same prompts, before and after", title_justify="left", show_lines=True)
    evaluations = run.evaluations()
    for column in ("prompt", *evaluations):
        table.add_column(column, ratio=1)
    for number in range(SAMPLES):
        table.add_row(run.plan.prompts[number], *(evaluation.responses[number] for evaluation in evaluations.values()))
    return table


if __name__ == "__main__":
    sys.exit(main())
