"""One failure of the last run again, by itself: its prints as they come, and its call as Python.

python -m testcases.harness.student.replay 3 [--pdb]
"""

import argparse
import os
import sys

from ..catalog import ROOT
from .progress import FOLDER, read, said_plainly, write

FAILURES = FOLDER / "failures.json"
COMMAND = "python -m testcases.harness.student.replay"


def keep(nodes: list[str], seed: int) -> None:
    """The failures that a run has shown, in that order."""
    write(FAILURES, {"nodes": nodes, "seed": seed})


def arguments_for(number: int) -> list[str]:
    """The arguments of pytest that run this failure again.

    Raises:
        LookupError: no failure has this number.
    """
    state = read(FAILURES)
    nodes = state.get("nodes", [])
    if not nodes:
        raise LookupError("No failure is kept: run pytest first.")
    if not 1 <= number <= len(nodes):
        raise LookupError(f"The last run showed {len(nodes)} failure{'s' * (len(nodes) > 1)}: there is no {number}.")
    return [nodes[number - 1], "-s", "--snippet", f"--suite-seed={state.get('seed', 0)}"]


@said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="See one failure of the last run again.")
    parser.add_argument("number", type=int, nargs="?", default=1, help="of the failure; 1 if left out")
    options, more = parser.parse_known_args()
    arguments = arguments_for(options.number)
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments, *more])


if __name__ == "__main__":
    main()
