"""Make the contest's record from the results of `make contest SEEDS=10 TUNE=1`, where they were run.

python -m testcases.course.contest_record runs/contest
"""

import json
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from ppo_by_hand.core.files import write_text
from solutions.contest import record
from solutions.contest.running import TUNING_SEEDS, choose, curves, read_results, results_file
from solutions.demo import stack
from testcases.course.records import processor_name


def write(out: Path) -> None:
    """One run to a line, below how they came about."""
    found = read_results(results_file(out, stack.code_of_lessons(stack.SOLUTIONS)))
    chosen = choose(found)
    seeds = 1 + max(job.seed for job in found if job.seed not in TUNING_SEEDS)
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor_name(),
        "versions": {name: version(name) for name in ("torch", "transformers")},
        "command": f"make contest SEEDS={seeds} TUNE=1",
        "settings": chosen,
    }
    runs = ",\n".join(json.dumps(found[job]) for job in curves(chosen, seeds))
    write_text(record.FILE, f'{json.dumps(about)[:-1]}, "runs": [\n{runs}\n]}}\n')


if __name__ == "__main__":
    write(Path(sys.argv[1]))
