"""make merge: join the parts of a class, graded with SHARD=, into the same gradebook as one run would give.

python -m testcases.grader.commands.merge --out OUT                    all OUT/shard-*
python -m testcases.grader.commands.merge --out OUT --parts "a b c"    these folders
"""

import argparse
import os
import sys
from pathlib import Path

from ppo_by_hand.core.progress import while_read

from .. import marking
from ..marking import Part, Row, Secret
from .reporting import OUT, Given, add_assignment, given_for, refuse, report


@while_read()
def main() -> None:
    parser = argparse.ArgumentParser(prog="make merge", description="Join the parts of a class.")
    parser.add_argument("--out", default="", help=f"where the joined results go (default: {OUT})")
    parser.add_argument("--parts", default="", help="folders of the parts (default: OUT/shard-*)")
    parser.add_argument("--submissions", default="", help="the graded folder, in which similarity is looked at")
    parser.add_argument("--roster", default="", help="CSV of the course's students, with a header")
    add_assignment(parser)
    parser.add_argument("--secret", default="", help="that the parts share (default: $SECRET, or the one kept in OUT)")
    options = parser.parse_args()
    given_secret = options.secret or os.environ.pop("SECRET", "")
    try:
        given, parts = _parts(options)
        submissions = Path(options.submissions) if options.submissions else None
        if submissions and not submissions.is_dir():
            raise ValueError(f"SUBMISSIONS: expected a folder, and there is none at {options.submissions!r}")
        secret = marking.secret_of(given_secret) if given_secret else marking.kept_in(given.out, make=False)
        rows = join(given.out, parts, secret)
    except (OSError, ValueError) as error:
        sys.exit(refuse(str(error)))
    sys.exit(report(given, rows, submissions, parts[0][1].sandbox, secret))


def _parts(options: argparse.Namespace) -> tuple[Given, list[tuple[Path, Part]]]:
    """Raises ValueError: the parts are no whole class, or this assignment asks for other exercises than they did."""
    out = Path(options.out or OUT)
    folders = [Path(name) for name in options.parts.split()] or sorted(out.glob("shard-*-of-*"))
    if not folders:
        raise ValueError(f"PARTS: expected folders that make check SHARD= wrote, there are none in {out}")
    parts = [(folder, marking.read_part(folder)) for folder in folders]
    marking.check_parts(parts)
    first = parts[0][1]
    assignment = marking.from_dict(first.assignment)
    if options.assignment or options.lessons or options.points:
        # Another weight or due date is a matter of the reports; other exercises would have to be graded.
        assignment = marking.asked_for(options.assignment, options.lessons, options.points)
    if marking.suite_of(first.course, assignment) != first.suite:
        raise ValueError("ASSIGNMENT: expected the exercises that the parts were graded for, got others: grade again")
    return given_for(out, options.roster, assignment, options.missing), parts


def join(out: Path, parts: list[tuple[Path, Part]], secret: Secret) -> list[Row]:
    """Copy all results into one folder; the rows in the order of the class.

    Raises:
        ValueError: a result is not there, of another run, or not as it was graded.
    """
    found = []
    for folder, part in parts:
        for place, student, file_name in part.rows:
            result = marking.read_result(folder / "results" / f"{file_name}.json")
            wanted = {"student": student, "secret": part.secret, "suite": part.suite, "sandbox": part.sandbox}
            if result is None or any(result.get(key) != value for key, value in wanted.items()):
                raise ValueError(f"{folder}: the result of {student!r} is missing or of another run, grade it again")
            if not secret.sealed(result):
                raise ValueError(f"{folder}: the result of {student!r} was edited after it was graded, grade it again")
            found.append((place, file_name, result))
    (out / "results").mkdir(parents=True, exist_ok=True)
    rows = []
    for _, file_name, result in sorted(found, key=lambda one: one[0]):
        marking.write_result(out / "results" / f"{file_name}.json", result, secret)
        rows.append(marking.row_of(file_name, result))
    return rows


if __name__ == "__main__":
    main()
