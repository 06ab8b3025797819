"""make check: grade your own lessons, or a folder of submissions.

python -m testcases.grader                                    your tutorial/
python -m testcases.grader SUBMISSIONS --out OUT              a folder with a subfolder or an archive for each student
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
# The answers of the reference are computed as a student's are: on the CPU, with one thread, without the network.
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", ACCELERATE_USE_CPU="true")

from testcases.harness.catalog import TUTORIAL  # noqa: E402

from .intake.exports import HandIn, find  # noqa: E402
from .intake.selection import course_files, exercises_in  # noqa: E402
from .intake.submissions import Submission, read_submission  # noqa: E402
from .marking.assignment import Assignment, asked_for  # noqa: E402
from .sandbox.sandbox import Limits, check_sandbox  # noqa: E402
from .status import GRADED, GRADER, NOT_SANDBOXED  # noqa: E402
from .text import clean  # noqa: E402

if TYPE_CHECKING:
    from .marking.batch import Batch
    from .reports.people import People

OUT = "runs/check"
OWN = HandIn("tutorial", "tutorial", [(TUTORIAL, "tutorial")])
"""The working tree."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make check", description="Grade your lessons, or a folder of submissions.")
    parser.add_argument("submissions", nargs="?", default="", help="folder with a folder or archive for each student")
    parser.add_argument("--out", default="", help=f"where results go (default: {OUT})")
    parser.add_argument("--jobs", default="", help="how many submissions run at once (default: one for each core)")
    parser.add_argument("--roster", default="", help="the class, as the platform exports it; it is kept in OUT")
    parser.add_argument("--assignment", default="", help="TOML file that says what counts")
    parser.add_argument("--lessons", default="", help='or the lessons, such as "1 3 4"')
    parser.add_argument("--points", default="", help="and the points of the whole")
    parser.add_argument("--dry", default="", help="if not empty, only say what would be graded")
    parser.add_argument("--sandbox", default="", help='"bwrap" (default), or "none" for code that you trust')
    parser.add_argument("--limits", default="", help="such as call_seconds=2,memory_mb=1024")
    options = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        sys.exit(run(options))
    except KeyboardInterrupt:
        sys.exit("stopped; what has been graded is kept, so run the same command again to continue")
    except (OSError, ValueError) as error:
        told = str(error)
        if isinstance(error, OSError):
            place = error.filename or options.out or OUT
            told = f"{place}: {error.strerror or error}; what has been graded is kept"
        print(f"error: {told}", file=sys.stderr)
        sys.exit(2)


def run(options: argparse.Namespace) -> int:
    """0 when everything was graded, 1 when the grader failed at something, 2 when it was asked in a wrong way.

    Raises:
        ValueError, OSError: something was asked in a wrong way, or cannot be read or written.
    """
    from .reports import people, table

    assignment = asked_for(options.assignment, options.lessons, options.points)
    jobs, kind, limits = options.jobs or str(_default_jobs()), options.sandbox or "bwrap", _limits(options.limits)
    if not jobs.isdecimal() or int(jobs) < 1:
        raise ValueError(f"JOBS: expected a whole number from 1, got {jobs!r}")
    if kind not in ("bwrap", "none"):
        raise ValueError(f"SANDBOX: expected bwrap or none, got {kind!r}")
    folder, out = Path(options.submissions) if options.submissions else None, Path(options.out or OUT)
    if out.exists() and not out.is_dir():
        raise ValueError(f"OUT: expected a folder, got a file, {str(out)!r}")
    if folder and out.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"OUT: expected a folder outside {str(folder)!r}, in which everything is a submission")
    roster = Path(options.roster) if options.roster else None
    if roster and not roster.is_file():
        raise ValueError(f"ROSTER: expected a CSV file, and there is none at {options.roster!r}")
    known, edits = people.kept(out, roster), table.read(out)
    hand_ins = find(folder) if folder else [OWN]
    if options.dry not in ("", "0"):
        return _dry(hand_ins, assignment, known)
    check_sandbox(kind)
    import torch

    from .marking.batch import Batch
    from .marking.grade import Secret, kept_secret

    torch.set_num_threads(1)
    if folder is None:
        return _working_tree(Batch(kind, Secret(), int(jobs), limits, assignment))
    os.umask(0o077)
    with _alone(out):
        people.keep(out, roster)
        regrade = {line["folder"]: line["regrade"] for line in edits if line["regrade"]}
        batch = Batch(kind, kept_secret(out), int(jobs), limits, assignment, regrade)
        return _class(hand_ins, out, batch, known)


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Raises ValueError: another run is at work in the folder."""
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(out / ".lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"OUT: another run is at work in {str(out)!r}; wait for it, or name another folder"
            ) from None
        yield


def _class(hand_ins: list[HandIn], out: Path, batch: Batch, known: People) -> int:
    from .marking.batch import grade_all
    from .reports import write_reports
    from .reports.imports import canvas_doubts
    from .reports.sheets import number

    grade_all(hand_ins, out, batch)
    marks, problems = write_reports(out, hand_ins, batch.assignment, known, batch.regrade)
    if batch.kind == "none":
        print(NOT_SANDBOXED)
    for mark in marks:
        score = "" if mark.mark is None else number(mark.mark)
        print(f"{mark.shown:30.30} {score:>7} {', '.join(mark.flags)}")
    for problem in (*problems, *canvas_doubts(known, batch.assignment)):
        print(problem)
    print(f"{len(hand_ins)} in {out / 'marks.csv'}; the class: {out / 'report' / 'index.html'}")
    failed = [mark for mark in marks if mark.sheet and mark.sheet.status == GRADER and mark.score is None]
    return int(bool(problems or failed))


def _dry(hand_ins: Sequence[HandIn], assignment: Assignment, known: People) -> int:
    """Who was found, in which format, and what would be graded, in a line each."""
    from .reports.imports import canvas_doubts
    from .reports.people import match
    from .reports.sheets import Sheet

    worth = ", ".join(f"{lesson} {points:.4g}" for lesson, points in assignment.worth.items())
    print(f"{assignment.title}: {len(assignment.exercises)} exercises, {assignment.total:g} points: {worth}")
    found = [read_submission(one, assignment.lessons) for one in hand_ins]
    sheets = [Sheet(one.student, one.file_name, system=one.system, name=one.name, ids=one.ids) for one in found]
    owners = match(sheets, known)
    for one in found:
        person, why = owners[one.file_name]
        said = [*([f"whose? {why}"] if why else []), *_found(one, assignment)]  # A line is cut at its end.
        name = person.name if person.row else ""
        print(clean(f"{one.student:30.30} {name:24.24} {one.system:10} {', '.join(said)}"))
    formats = ", ".join(f"{count} {name}" for name, count in Counter(one.system for one in found).most_common())
    graded = sum(one.status == GRADED for one in found)
    print(f"{len(found)} found ({formats or 'none'}), {graded} to grade, {len(found) - graded} not to be graded")
    if known:
        have = {person.row for person, _ in owners.values() if person.row}
        absent = clean("; ".join(one.name or one.key for one in known.people if one.row not in have))
        print(f"{len(have)} of the {len(known.people)} people on the list have handed in{absent and f', not {absent}'}")
    for problem in canvas_doubts(known, assignment):
        print(problem)
    print("DRY: we graded nothing and wrote nothing")
    return 0


def _found(one: Submission, assignment: Assignment) -> list[str]:
    """What would be graded of a submission, what is missing, and what to look at."""
    doubts = [doubt.text for doubt in one.doubts]
    if one.status != GRADED:
        return [f"{one.status}: {one.notes[-1]}", *doubts]
    told = " ".join(doubts)
    missing = [
        f"no {path}"
        for path in course_files()
        if path not in one.files
        and f" {path};" not in told
        and any((path.partition("/")[0], name) in assignment.exercises for name in exercises_in(path))
    ]
    count = sum(path in one.files for path in course_files())
    return [f"{count} files in {one.folder}", *missing[:3], *doubts]


def _working_tree(batch: Batch) -> int:
    from .marking.batch import grade_one
    from .reports.sheets import sheet_of

    print(f"your own lessons in {TUTORIAL.name}/; for a class: make check SUBMISSIONS=folder")
    sheet = sheet_of(grade_one(read_submission(OWN), batch), "tutorial", batch.assignment)
    if batch.kind == "none":
        print(NOT_SANDBOXED)
    for lesson in sheet.lessons:
        print(lesson.name)
        for one in lesson.exercises:
            print(f"  {one.name:32} {one.points!s:>9}  {one.status:14}{' '.join(one.causes[:1])}".rstrip())
    print(f"{sheet.all_points} points")
    for note in sheet.notes:
        print(note)
    return int(sheet.status == GRADER)


def _default_jobs() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores, memory // 2**31))


def _limits(text: str) -> Limits:
    """Raises ValueError: there is no such limit, or it is no number above 0."""
    limits = Limits()
    kinds = {field.name: type(getattr(limits, field.name)) for field in fields(limits)}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        try:
            limits = replace(limits, **{name: kinds[name](value)})
            if not 0 < getattr(limits, name) < 1e9:  # One that is not asks nobody anything, or breaks the sandbox.
                raise ValueError
        except (KeyError, ValueError):
            wanted = ", ".join(f"{name}={getattr(Limits, name):g}" for name in kinds)
            told = "expected such as lesson_seconds=60, a number above 0"
            raise ValueError(f"LIMITS: {told}, of {wanted}; got {part!r}") from None
    return limits


if __name__ == "__main__":
    main()
