"""The command behind `make contest`.

python -m solutions.contest --seeds 1 --out runs/contest

`python -m tutorial.contest` is the same on a student's own lessons. The same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ppo_by_hand.core.files import first_line

from ..demo import stack

os.environ.setdefault("TQDM_DISABLE", "1")  # one bar for the whole, not one for each run


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing and show the tables; 0, 1 for bad input, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make contest", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="each with a reward model of its own (SEEDS=)")
    parser.add_argument("--out", type=Path, default=Path("runs/contest"), help="folder for results (OUT=)")
    parser.add_argument("--tune", action="store_true", help="tune every method first, on other seeds (TUNE=1)")
    options = parser.parse_args(arguments)
    options.out = options.out.expanduser()
    folder = stack.own_folder()
    try:
        if folder:
            stack.check_finished(folder, "contest", stack.OF_THE_CONTEST)
        contest(options)
    except KeyboardInterrupt:
        print(f"\nstopped; the same command goes on from here: {options.out}", file=sys.stderr)
        return 130
    except (Exception, SystemExit) as error:  # a student's file may raise anything
        if folder and isinstance(error, ImportError | SyntaxError):
            said = stack.not_loaded(error, folder)
        elif folder and (place := stack.place_of(error, folder)):
            said = f"expected a lesson to run to its end, got {place}: {first_line(error)}; pytest may say why"
        elif isinstance(error, OSError):
            said = f"expected to read and write in {options.out}, got: {error}; what is finished is kept there"
        elif isinstance(error, ValueError | stack.Unfinished):
            said = str(error)
        else:
            raise
        print(f"error: {said}", file=sys.stderr)
        return 1
    return 0


def contest(options: argparse.Namespace) -> None:
    """Everything, from what OUT already holds."""
    import torch
    from transformers.utils import logging

    from ppo_by_hand.core.shapes import check_number

    from . import record, running

    torch.set_num_threads(1)  # tiny models lose more to the coordination of two than they gain
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    check_number("SEEDS", options.seeds, 1, running.TUNING_SEEDS[0])  # seeds above are those of the tuning
    results = running.Results(options.out, stack.code_of_lessons(stack.own_folder() or stack.SOLUTIONS))
    if options.tune:
        running.run_all(running.tuning(), results, "tuning")
        chosen = running.choose(results.found)
    else:
        chosen = record.recorded()["settings"]
    rows = running.run_all(running.curves(chosen, options.seeds), results, "contest")
    print(f"\nThe runs with the middle coefficient:\n\n{record.as_text(record.ends(rows))}")
    if options.seeds == 1:
        print("\nOne seed is no result: SEEDS=2 or more gives intervals, and each curve five coefficients.")
    else:
        print(f"\nGold reward at an equal KL, {options.seeds} seeds:\n\n{record.as_text(record.over_kl(rows))}")


if __name__ == "__main__":
    sys.exit(main())
