"""The command behind `make contest`.

python -m solutions.contest --seeds 1 --out runs/contest

`python -m tutorial.contest` is the same on a student's own lessons. The same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ppo_by_hand.core.progress import quiet
from ppo_by_hand.core.shapes import check_number

from ..demo import stack
from ..demo.folder import new_folder

os.environ.setdefault("TQDM_DISABLE", "1")  # one bar for the whole, not one for each run


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing and show the tables; 0, 1 for bad input, 130 after Ctrl-C.

    What a student's own lesson raises comes through, with its traceback.
    """
    parser = argparse.ArgumentParser(prog="make contest", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="each with a reward model of its own (SEEDS=)")
    parser.add_argument("--out", type=Path, default=Path("runs/contest"), help="folder for results (OUT=)")
    options = parser.parse_args(arguments)
    out, folder = options.out.expanduser(), stack.own_folder()
    try:
        if folder:
            stack.check_finished(folder, "contest", stack.OF_THE_CONTEST)
        check_number("SEEDS", options.seeds, 1)
        if not any(out.glob("results-*.json")):
            new_folder(out)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1

    import torch  # for which --help need not wait

    from . import record, running

    torch.set_num_threads(1)  # tiny models lose more to the coordination of two than they gain
    quiet()
    try:
        rows = running.run_all(running.curves(options.seeds), running.results_file(out, folder or stack.SOLUTIONS))
    except KeyboardInterrupt:
        print(f"\nstopped; run the same command again to continue from {out}", file=sys.stderr)
        return 130
    print(f"\nThe runs with the middle coefficient:\n\n{record.as_text(record.ends(rows))}")
    if options.seeds == 1:
        print("\nOne seed is not a result. SEEDS=2 or more gives you intervals, and five coefficients for each curve.")
    else:
        print(f"\nGold reward at an equal KL, {options.seeds} seeds:\n\n{record.as_text(record.over_kl(rows))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
