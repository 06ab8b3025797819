"""The command behind `make contest`.

python -m solutions.contest --seeds 1 --out runs/contest

`python -m tutorial.contest` is the same on a student's own lessons. The same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppo_by_hand.core.files import first_line

from ..demo import stack

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

os.environ.setdefault("TQDM_DISABLE", "1")  # one bar for the whole, not one for each run


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing and show the tables; 0, 1 for bad input, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make contest", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="each with a reward model of its own (SEEDS=)")
    parser.add_argument("--few", type=int, default=0, help="seeds with few labels (FEW=)")
    parser.add_argument("--out", type=Path, default=Path("runs/contest"), help="folder for results (OUT=)")
    parser.add_argument("--tune", action="store_true", help="tune every method first, on other seeds (TUNE=1)")
    parser.add_argument("--record", action="store_true", help="replace the record that comes with the course")
    options = parser.parse_args(arguments)
    options.out = options.out.expanduser()
    folder = stack.own_folder()
    try:
        return _run(options, folder)
    except KeyboardInterrupt:
        print(f"\nstopped; the same command goes on from here: {options.out}", file=sys.stderr)
        return 130
    except Exception as error:
        if folder and (place := stack.place_of(error, folder)):
            said = f"expected a lesson to run to its end, got {place}: {first_line(error)}; pytest may say why"
        elif isinstance(error, OSError):
            said = f"expected to read and write in {options.out}, got: {error}; what is finished is kept there"
        elif isinstance(error, ValueError | stack.Unfinished):
            said = str(error)
        else:
            raise
        print(f"error: {said}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace, folder: Path | None) -> int:
    import torch
    from rich.console import Console
    from transformers.utils import logging as transformers_logging

    from ppo_by_hand.core.shapes import check_number

    console = Console(highlight=False)
    torch.set_num_threads(1)  # tiny models lose more to the coordination of two than they gain
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    if folder:
        _check_stack(folder)
    from . import plan, record

    check_number("SEEDS", options.seeds, 1, plan.TUNING_SEEDS[0])  # seeds above are those of the tuning
    check_number("FEW", options.few, 0, plan.TUNING_SEEDS[0])
    seeds = {plan.HOME: options.seeds, plan.FEW: options.few}
    found = contest(seeds, options.out, options.tune, options.record, console)
    for title, rows in record.tables(found).items():
        console.print(record.for_terminal(title, rows))
    if options.seeds == 1:
        console.print("One seed is no result: SEEDS=2 or more gives intervals, and each curve five coefficients.")
    return 0


def _check_stack(folder: Path) -> None:
    """
    Raises:
        Unfinished: the student's lessons cannot run.
    """
    stack.check_finished(folder, "contest", stack.OF_THE_CONTEST)
    try:
        from . import evaluation, plan  # noqa: F401
    except (Exception, SystemExit) as error:  # a student's file may raise anything
        raise stack.Unfinished(stack.not_loaded(error, folder)) from None


def contest(seeds: dict[str, int], out: Path, tune: bool, is_record: bool, console: Console) -> dict[str, Any]:
    """Everything, from what `out` already holds.

    Args:
        seeds: of each situation.
        out: where results are kept.
        tune: tune here; else the settings are the record's.
        is_record: replace the record.
        console: for the bars.
    """
    from rich.progress import Progress

    from . import plan, record
    from .costs import peak_memory
    from .evaluation import evaluate
    from .running import Results, run_all, run_best_of_n
    from .world import World

    results = Results(out, stack.code_of_lessons(stack.own_folder() or stack.SOLUTIONS))
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
        found["memory"] = {name: peak_memory(name) for name in (*plan.METHODS, plan.BEST_OF_N)}
        record.write(found)
    return found


if __name__ == "__main__":
    sys.exit(main())
