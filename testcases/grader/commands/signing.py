"""make sign: this state of the marks, under the secret of the grading; a later run says what would differ from it.

python -m testcases.grader.commands.signing --out OUT

OUT/signed.json holds every mark, a hash of each results file, of the roster, of the overrides and of the course, the
assignment, and a seal over all of it which only whoever has the secret can make.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json

from ..marking import Assignment, Row, Secret, from_dict, kept_in, read_result, row_of, secret_of
from ..reports import marks_of
from ..reports.marks import MarkSheet, clean, overrides

RUN, SIGNED = "run.json", "signed.json"
MAX_BYTES = 64 * 2**20


def main() -> None:
    parser = argparse.ArgumentParser(prog="make sign", description="Sign the marks of the last run.")
    parser.add_argument("--out", default="runs/check", help="where its results are")
    parser.add_argument("--secret", default="", help="of the grading (default: $SECRET, or the one kept in OUT)")
    options = parser.parse_args()
    out, given = Path(options.out or "runs/check"), options.secret or os.environ.pop("SECRET", "")
    try:
        secret = secret_of(given) if given else kept_in(out, make=False)
        print(sign(out, secret))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def note_run(out: Path, roster: Path | None, assignment: Assignment, rows: Sequence[Row]) -> None:
    """What the reports were written from, so that nobody has to type it again."""
    files, place = [row.file_name for row in rows], str(roster.resolve()) if roster else ""
    write_json(out / RUN, {"files": files, "roster": place, "assignment": assignment.as_dict()})


def sign(out: Path, secret: Secret) -> str:
    """Write the signed state; a sentence about it.

    Raises:
        ValueError: a result was edited, or there was no run.
        OSError: something cannot be read.
    """
    run = _read(out / RUN)
    if run is None:
        raise ValueError(f"OUT: expected the results of make check in {str(out)!r}, there is no {RUN}")
    rows = []
    for name in run["files"]:
        result = read_result(out / "results" / f"{name}.json")
        if result is None or not secret.sealed(result):
            raise ValueError(f"results/{clean(name)}.json was edited after it was graded, or under another secret")
        rows.append(row_of(name, result))
    from ..sandbox import fingerprint

    assignment, roster = from_dict(run["assignment"]), Path(run["roster"]) if run["roster"] else None
    decided = overrides.read(out, assignment.names)
    marks = marks_of(out, rows, roster, assignment, decided, secret)
    if marks.problems:
        raise ValueError(f"not signed, since something is open: {marks.problems[0]}")
    data = {
        "marks": {sheet.page: [sheet.student, sheet.mark] for sheet in marks.sheets},
        "results": {name: _digest(out / "results" / f"{name}.json") for name in run["files"]},
        "roster": _digest(roster) if roster else "",
        "overrides": _digest(out / overrides.FILE),
        "assignment": run["assignment"],
        "course": fingerprint(),
    }
    write_json(out / SIGNED, {**data, "seal": secret.seal(data)})
    return f"signed: {len(marks.sheets)} marks in {out / SIGNED}, seal {secret.seal(data)[:16]}"


def differences(out: Path, secret: Secret, sheets: Iterable[MarkSheet]) -> Iterator[str]:
    """A line for each mark that is not as it was signed."""
    signed = _read(out / SIGNED)
    if signed is None:
        return
    if not secret.sealed(signed):
        yield f"{SIGNED}: was edited, or signed under another secret: it proves nothing"
        return
    marks = {sheet.page: sheet for sheet in sheets}
    for page, (student, mark) in signed["marks"].items():
        now = marks.pop(page, None)
        if now is None or now.mark != mark:
            said = "is not there" if now is None else f"would be {_told(now.mark)}"
            yield f"signed: {clean(student)} {_told(mark)}, and {said}"
    yield from (f"signed: {sheet.shown} was not there, and would be {_told(sheet.mark)}" for sheet in marks.values())


def _told(mark: float | None) -> str:
    return "no mark" if mark is None else f"{mark:g}"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8")) if path.stat().st_size < MAX_BYTES else None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


if __name__ == "__main__":
    main()
