"""The command behind `make contest`.

python -m solutions.apps.contest --seeds 1 --out runs/contest

`python -m tutorial.apps.contest` is the same on a student's own lessons. The same command goes on where it was stopped.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TQDM_DISABLE", "1")  # one bar for the whole, not one for each run

import torch
from rich.console import Console
from rich.progress import Progress, TaskID
from transformers.utils import logging as transformers_logging

from ppo_by_hand.core.shapes import check_number

from .. import stack
from . import plan, record
from .costs import peak_memory
from .evaluation import evaluate
from .running import Results, run_all, run_best_of_n
from .world import FEW, HOME, World


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing and show the tables; 0, 1 for bad input, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make contest", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="each with a reward model of its own (SEEDS=)")
    parser.add_argument("--few", type=int, default=0, help="seeds with few labels (FEW=)")
    parser.add_argument("--out", type=Path, default=Path("runs/contest"), help="folder for results (OUT=)")
    parser.add_argument("--tune", action="store_true", help="tune every method first, on other seeds (TUNE=1)")
    parser.add_argument("--record", action="store_true", help="replace the record that comes with the course")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    torch.set_num_threads(1)  # tiny models lose more to the coordination of two than they gain
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        check_number("SEEDS", options.seeds, 1)
        check_number("FEW", options.few, 0)
        if folder := stack.own_folder():
            stack.check_finished(folder, "contest", stack.OF_THE_CONTEST)
        seeds = {HOME: options.seeds, FEW: options.few}
        found = contest(seeds, options.out.expanduser(), options.tune, options.record, console)
    except (ValueError, OSError, stack.Unfinished) as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print(f"\nstopped; the same command goes on from here: {options.out}")
        return 130
    for title, rows in record.tables(found).items():
        console.print(record.for_terminal(title, rows))
    if options.seeds == 1:
        console.print("One seed is no result: SEEDS=2 or more gives intervals, and each curve five coefficients.")
    return 0


def contest(seeds: dict[str, int], out: Path, tune: bool, is_record: bool, console: Console) -> dict[str, Any]:
    """Everything, from what `out` already holds.

    Args:
        seeds: of each situation.
        out: where results are kept.
        tune: tune here; else the settings are the record's.
        is_record: replace the record.
        console: for the bars.
    """
    results = Results(out)
    with Progress(console=console) as progress:

        def told(bar: TaskID) -> Callable[[str], None]:
            return lambda key: progress.update(bar, advance=1, description=key)

        if tune:
            jobs = list(plan.tuning())
            bar = progress.add_task("tuning", total=len(jobs))
            run_all(jobs, results, told(bar))
        chosen = record.chosen_settings(results, tune)
        for situation, count in seeds.items():
            jobs = list(plan.curves(chosen, count, plan.coefficients(count), situation))
            bar = progress.add_task(situation, total=len(jobs) + count, visible=count > 0)
            for seed in range(plan.FIRST_SEED, plan.FIRST_SEED + count):
                world = World(seed, situation)
                own = [job for job in jobs if job.seed == seed]
                run_all(own, results, told(bar), world)
                key = plan.best_of_n_key(situation, seed)
                if key not in results.found:
                    results.keep(key, {"sft": evaluate(world.sft, world).as_dict(), **run_best_of_n(world)})
                progress.update(bar, advance=1, description=key)
    found = record.summary(results, chosen, seeds, tune)
    if is_record:
        found["memory"] = {name: peak_memory(name) for name in plan.METHODS}
        record.write(found)
    return found


if __name__ == "__main__":
    sys.exit(main())
