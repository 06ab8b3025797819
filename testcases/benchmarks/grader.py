"""How fast a batch is graded, beside one pytest process for each lesson and submission.

    python -m testcases.benchmarks.grader                            100 submissions, 3 of them by pytest as well
    python -m testcases.benchmarks.grader --submissions 20 --sample 1

Both in one run, so that the ratio means something even where the seconds do not: make check as it is, with a job for
each core (or --jobs); pytest one process after the other, before, between and after. The submissions are the solutions
with small mistakes planted and some exercises not started.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from testcases.engine.contract import ROOT, SOLUTIONS, lesson_names, regions
from testcases.engine.stubs import emptied
from testcases.grader.choosing import course_files
from testcases.selfcheck.mutants import mutants

MISTAKE, NOT_STARTED = 0.4, 0.1
"""How often a file has a mistake, and an exercise is not started."""


@cache
def mistakes(path: str) -> list[str]:
    """The file with one small change each."""
    return [mutant.source for mutant in mutants(SOLUTIONS / path)]


def write_submission(folder: Path, number: int) -> None:
    """One student; the same number gives the same files."""
    chance = random.Random(number)
    for path in course_files():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        planted = mistakes(path) if chance.random() < MISTAKE else []
        target.write_text(chance.choice(planted) if planted else (SOLUTIONS / path).read_text("utf-8"), "utf-8")
        absent = [region.exercise for region in regions(target) if chance.random() < NOT_STARTED]
        target.write_text(f"{emptied(target, absent)}# student {number}\n", "utf-8")


class Memory(threading.Thread):
    """Watches what a process and all below it hold, in MiB, once a second."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self.process, self.seen, self._ended = process, [], threading.Event()

    def run(self) -> None:
        while not self._ended.wait(1.0):
            self.seen.append(_resident(self.process) // 2**20)

    def end(self) -> tuple[int, int]:
        """The most in the first half and in the second half of the time."""
        self._ended.set()
        self.join()
        half = len(self.seen) // 2
        return max(self.seen[:half], default=0), max(self.seen[half:], default=0)


def _resident(top: int) -> int:
    """Bytes of a process and its descendants; a page that several of them share counts once, where Linux says so."""
    total = 0
    try:
        family = [psutil.Process(top), *psutil.Process(top).children(recursive=True)]
    except psutil.Error:  # it has just ended
        return total
    for process in family:
        try:
            memory = process.memory_full_info()
        except psutil.Error:
            continue
        total += getattr(memory, "pss", memory.rss)
    return total


def grade(folder: Path, out: Path, jobs: str) -> tuple[float, tuple[int, int]]:
    """Seconds, and MiB in the two halves."""
    command = [sys.executable, "-m", "testcases.grader", str(folder), "--out", str(out), "--jobs", jobs]
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    memory = Memory(process.pid)
    memory.start()
    if process.wait() != 0:
        raise SystemExit(f"error: the grader ended with {process.returncode}")
    return time.monotonic() - start, memory.end()


def run_pytest(submission: Path) -> float:
    """Seconds of one process for each lesson."""
    start = time.monotonic()
    for lesson in lesson_names():
        command = [sys.executable, "-m", "pytest", f"testcases/{lesson}", f"--subject={submission}"]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="The speed of the grader.")
    parser.add_argument("--submissions", type=int, default=100)
    parser.add_argument("--sample", type=int, default=3, help="how many of them pytest runs as well")
    parser.add_argument("--jobs", default="", help="of make check (default: one a core)")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    console = Console()
    table = Table("", "submissions", "seconds", "seconds each", "MiB, first half", "MiB, second half")
    with tempfile.TemporaryDirectory(prefix="bench-") as top:
        folder, half = Path(top) / "all", Path(top) / "half"
        for number in range(options.submissions):
            write_submission(folder / f"student{number:03}", number)
            if number % 2:
                write_submission(half / f"student{number:03}", number)
        found, spent = [], []
        for place in (half, folder):
            spent += [run_pytest(folder / f"student{number:03}") for number in range(len(found), options.sample, 3)]
            count = len(list(place.iterdir()))
            seconds, memory = grade(place, Path(top) / f"out-{place.name}", options.jobs)
            found.append(seconds / count)
            table.add_row("make check", str(count), f"{seconds:.0f}", f"{found[-1]:.2f}", *map(str, memory))
        spent += [run_pytest(folder / f"student{number:03}") for number in range(2, options.sample, 3)]
    by_pytest = sum(spent) / len(spent)
    table.add_row("pytest", str(len(spent)), f"{sum(spent):.0f}", f"{by_pytest:.1f}", "", "")
    console.print(table)
    console.print(
        f"make check is {by_pytest / found[-1]:.1f} times as fast; twice the submissions cost "
        f"{2 * found[1] / found[0]:.2f} times the seconds"
    )


if __name__ == "__main__":
    main()
