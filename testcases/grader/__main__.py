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
from typing import TYPE_CHECKING

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
# The answers of the reference are computed as a student's are: on the CPU, with one thread, without the network.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", ACCELERATE_USE_CPU="true")

from ppo_by_hand.core.progress import while_read  # noqa: E402
from testcases.harness.catalog import TUTORIAL  # noqa: E402

from .commands import OUT, add_assignment, refuse, reporting  # noqa: E402
from .marking import FILE, Secret, asked_for, has_grader_error, kept_in, new, secret_of  # noqa: E402
from .sandbox import Limits  # noqa: E402

if TYPE_CHECKING:
    from .marking import Batch


@while_read()
def main() -> None:
    parser = argparse.ArgumentParser(prog="make check", description="Grade your lessons, or a folder of submissions.")
    parser.add_argument("submissions", nargs="?", default="", help="folder with a subfolder or an archive a student")
    parser.add_argument("--out", default="", help=f"where results go (default: {OUT})")
    parser.add_argument("--jobs", default="", help="submissions at the same time (default: one a core)")
    parser.add_argument("--secret", default="", help="of fresh inputs (default: $SECRET, or made and kept in OUT)")
    parser.add_argument("--roster", default="", help="CSV of the course's students, with a header")
    add_assignment(parser)
    parser.add_argument("--regrade", default="", help="a student, a lesson or an exercise that is graded again")
    parser.add_argument("--dry", default="", help="not empty: say what would be graded, and grade nothing")
    parser.add_argument("--sandbox", default="", help='"bwrap" (default), or "none": only for code that you trust')
    parser.add_argument("--limits", default="", help="such as call_seconds=2,memory_mb=1024")
    options = parser.parse_args()
    # A process started from here needs it as little as the make above, which repeats it.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    given = [os.environ.pop(name, "") for name in ("SECRET", "MAKEFLAGS", "MAKEOVERRIDES")][0]
    options.secret = options.secret or given
    try:
        sys.exit(run(options))
    except KeyboardInterrupt:
        sys.exit("stopped; what is graded stays graded: run the same command again to go on")


def run(options: argparse.Namespace) -> int:
    """0 when everything was graded, 1 when the grader failed at something, 2 when it was asked in a wrong way."""
    folder = Path(options.submissions) if options.submissions else None
    if folder and folder.is_dir():
        from .intake import told

        print(told(folder))
    try:
        given = reporting.given_for(
            Path(options.out or OUT),
            options.roster,
            asked_for(options.assignment, options.lessons, options.points),
            options.missing,
        )
        if options.dry not in ("", "0"):
            from .commands import plan

            return plan.show(folder, given)
        batch = _batch(options, given, folder)
        if folder is None:
            return _working_tree(options, batch)
        from .marking import grade_folder

        rows = grade_folder(folder, given.out, batch)
    except (OSError, ValueError) as error:
        return refuse(str(error))
    return reporting.report(given, rows, batch.kind)


def _refuse_folders(options: argparse.Namespace, out: Path, folder: Path | None) -> None:
    """
    Raises:
        NotADirectoryError, ValueError: one that was named is not there, holds something else, or holds the other.
    """
    if folder is not None:
        from .intake import find_outside

        find_outside(folder, out)


def _batch(options: argparse.Namespace, given: reporting.Given, folder: Path | None) -> Batch:
    """What was asked is refused before the sandbox is looked for, and nothing is written before it is found.

    Raises:
        ValueError, OSError: something was asked in a wrong way, or there is no sandbox and it was not renounced.
    """
    jobs = options.jobs or str(_default_jobs())
    if not jobs.isdecimal() or not 1 <= int(jobs) < 2**31:
        raise ValueError(f"JOBS: expected a whole number from 1, got {jobs!r}")
    kind = options.sandbox or "bwrap"
    if kind not in ("bwrap", "none"):
        raise ValueError(f"SANDBOX: expected bwrap or none, got {kind!r}")

    import torch

    torch.set_num_threads(1)
    from .marking import Batch
    from .sandbox import bubblewrap

    limits = _limits(options.limits, Limits())
    _refuse_folders(options, given.out, folder)
    secret = _secret(options, given.out, folder)
    if kind == "bwrap":
        try:
            bubblewrap.check_bubblewrap()
        except bubblewrap.NoSandbox as error:
            raise ValueError(str(error)) from None
    if secret is None:
        given.out.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret = kept_in(given.out)
    return Batch(kind, secret, int(jobs), limits, given.assignment, options.regrade)


def _secret(options: argparse.Namespace, out: Path, folder: Path | None) -> Secret | None:
    """None where one is still to be made, and kept.

    Raises:
        ValueError: the file with it is empty.
        OSError: the file with it cannot be read.
    """
    if options.secret:
        return secret_of(options.secret)
    if folder is None:
        return new()
    return kept_in(out) if (out / FILE).exists() else None


def _working_tree(options: argparse.Namespace, batch: Batch) -> int:
    from rich.console import Console

    from .commands import tables
    from .intake import submissions
    from .marking import grade_one
    from .status import NOT_SANDBOXED

    result = grade_one(submissions.from_folder(TUTORIAL, "tutorial"), batch)
    console = Console(highlight=False)
    if batch.kind == "none":
        console.print(NOT_SANDBOXED, style="bold red", markup=False)
    console.print(tables.exercises(result, batch.assignment))
    for note in result["notes"]:
        console.print(note, markup=False)
    if options.out:
        Path(options.out).mkdir(parents=True, exist_ok=True)
        (Path(options.out) / "tutorial.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return int(has_grader_error(result))


def _default_jobs() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return cores
    return max(1, min(cores, memory // 2**31))


def _limits(text: str, limits: Limits) -> Limits:
    kinds = {field.name: type(getattr(limits, field.name)) for field in fields(limits)}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        try:
            limits = replace(limits, **{name: kinds[name](value)})
        except (KeyError, ValueError):
            wanted = ", ".join(f"{name}={getattr(limits, name):g}" for name in kinds)
            raise ValueError(f"LIMITS: expected such as lesson_seconds=60, of {wanted}; got {part!r}") from None
    return limits


if __name__ == "__main__":
    if sys.getfilesystemencoding() != "utf-8":
        # An old cluster's LC_ALL=C: names of files and of people are read and written as on every other machine.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    main()
