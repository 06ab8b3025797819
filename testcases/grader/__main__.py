"""make check: grade your own lessons, or a folder of submissions.

python -m testcases.grader                                    your tutorial/, as a table
python -m testcases.grader SUBMISSIONS --out OUT              a folder with a subfolder or an archive for each student
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import fields, replace
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
# The answers of the reference are computed as a student's are: on the CPU, with one thread, without the network.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", ACCELERATE_USE_CPU="true")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make check", description="Grade your lessons, or a folder of submissions.")
    parser.add_argument("submissions", nargs="?", default="", help="folder with a subfolder or an archive a student")
    parser.add_argument("--out", default="", help="where results go (default: runs/check)")
    parser.add_argument("--jobs", default="", help="submissions at the same time (default: one a core)")
    parser.add_argument("--secret", default="", help="of fresh inputs (default: $SECRET, or made and kept in OUT)")
    parser.add_argument("--roster", default="", help="CSV of the course's students, with a header")
    parser.add_argument("--sandbox", default="", help='"bwrap" (default), or "none": only for code that you trust')
    parser.add_argument("--limits", default="", help="such as call_seconds=2,memory_mb=1024")
    parser.add_argument("--disputes", default="", help="folder with files that make dispute wrote: which reproduce?")
    options = parser.parse_args()
    # A process started from here needs it as little as the make above, which repeats it.
    given = [os.environ.pop(name, "") for name in ("SECRET", "MAKEFLAGS", "MAKEOVERRIDES")][0]
    options.secret = options.secret or given
    try:
        sys.exit(run(options))
    except KeyboardInterrupt:
        sys.exit("stopped; what is graded stays graded: run the same command again to go on")


def run(options: argparse.Namespace) -> int:
    """0 when everything was graded, 1 when the grader failed at something, 2 when it was asked in a wrong way."""
    try:
        jobs = _number(options.jobs or _default_jobs(), "JOBS", 1)
        kind = options.sandbox or "bwrap"
        if kind not in ("bwrap", "none"):
            raise ValueError(f"SANDBOX: expected bwrap or none, got {kind!r}")
    except ValueError as error:
        return _refuse(str(error))

    import torch

    torch.set_num_threads(1)
    from . import bubblewrap
    from .limits import Limits

    try:
        limits = _limits(options.limits, Limits())
        if kind == "bwrap":
            bubblewrap.check_bubblewrap()
    except bubblewrap.NoSandbox as error:
        return _refuse(str(error).removeprefix("error: "))
    except ValueError as error:
        return _refuse(str(error))
    if options.disputes:
        return _disputes(options, kind, limits)
    if options.submissions:
        return _folder(options, kind, jobs, limits)
    return _working_tree(options, kind, limits)


def _folder(options: argparse.Namespace, kind: str, jobs: int, limits: object) -> int:
    from rich.console import Console

    from . import batch, reports, tables
    from .results import NOT_SANDBOXED
    from .secret import secret_of

    folder, out = Path(options.submissions), Path(options.out or "runs/check")
    roster = Path(options.roster) if options.roster else None
    if roster and not roster.is_file():
        return _refuse(f"ROSTER: expected a CSV file, and there is none at {options.roster!r}")
    try:
        secret = secret_of(options.secret) if options.secret else None
        rows = batch.grade_folder(folder, out, kind=kind, secret=secret, jobs=jobs, limits=limits)
    except (OSError, ValueError) as error:
        return _refuse(str(error))
    reports.write_reports(out, rows, folder, roster)
    console = Console(highlight=False)
    if kind == "none":
        console.print(NOT_SANDBOXED, style="bold red", markup=False)
    console.print(tables.gradebook(rows))
    console.print(f"{len(rows)} in {out / 'gradebook.csv'}; the class: {out / 'report' / 'index.html'}", markup=False)
    return 1 if any(row.status == "grader-error" for row in rows) else 0


def _disputes(options: argparse.Namespace, kind: str, limits: object) -> int:
    from .disputes import judged

    try:
        for line in judged(Path(options.disputes), kind=kind, limits=limits):  # type: ignore[arg-type]
            print(line)
    except OSError as error:
        return _refuse(str(error))
    return 0


def _working_tree(options: argparse.Namespace, kind: str, limits: object) -> int:
    from rich.console import Console

    from testcases.engine.contract import TUTORIAL

    from . import batch, submissions, tables
    from .results import NOT_SANDBOXED
    from .secret import secret_of

    secret = secret_of(options.secret) if options.secret else None
    result = batch.grade_one(submissions.from_folder(TUTORIAL, "tutorial"), kind=kind, secret=secret, limits=limits)
    console = Console(highlight=False)
    if kind == "none":
        console.print(NOT_SANDBOXED, style="bold red", markup=False)
    console.print(tables.exercises(result))
    for note in result["notes"]:
        console.print(note, markup=False)
    if options.out:
        Path(options.out).mkdir(parents=True, exist_ok=True)
        (Path(options.out) / "tutorial.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return 1 if batch.has_grader_error(result) else 0


def _number(text: str | int, name: str, least: int) -> int:
    if not str(text).isdecimal() or not least <= int(text) < 2**31:
        raise ValueError(f"{name}: expected a whole number from {least}, got {text!r}")
    return int(text)


def _default_jobs() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return cores
    return max(1, min(cores, memory // 2**31))


def _limits(text: str, limits: object) -> object:
    kinds = {field.name: type(getattr(limits, field.name)) for field in fields(limits)}  # type: ignore[arg-type]
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in kinds:
            raise ValueError(f"limits: expected one of {', '.join(kinds)}, got {name!r}")
        limits = replace(limits, **{name: kinds[name](value)})  # type: ignore[type-var]
    return limits


def _refuse(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
