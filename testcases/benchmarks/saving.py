"""From saving a file to the verdict of its lesson in `make watch`: seconds, CPU time and the peak of memory.

    python -m testcases.benchmarks.saving [1 4 9] [--saves 5]

Everything is solved, so that all tests of a lesson run. Linux only: memory is that of each page shared out among the
processes that hold it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import IO

import psutil
from rich.console import Console
from rich.table import Table

from testcases.engine.catalog import lesson as read_lesson
from testcases.selfcheck.students import own_course

TARGETS = {1: 1.0, 2: 3.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 1.0, 7: 3.0, 8: 3.0, 9: 3.0}
"""Seconds, on two cores of a quiet machine."""


def measure(course: Path, number: int, saves: int) -> tuple[float, list[tuple[float, float]], float]:
    """Seconds until the first verdict; seconds and CPU seconds of each save; the peak in MiB."""
    lesson = read_lesson(str(number))
    file = course / "tutorial" / lesson.name / lesson.file_of(lesson.exercises[0])
    command = [sys.executable, "-m", "testcases.engine.student.watching.watch", str(number)]
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=course, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdin and watch.stdout
        try:
            _verdict(watch.stdout, lesson.name)
            first, found = time.perf_counter() - started, []
            for _ in range(saves):
                time.sleep(2.0)  # as a student pauses; and the warm process goes on loading
                cpu = _cpu(watch.pid)
                found.append((_save(file, watch.stdout, lesson.name), _cpu(watch.pid) - cpu))
            return first, found, _peak(watch.pid, lambda: _save(file, watch.stdout, lesson.name))
        finally:
            watch.stdin.write("q")
            watch.stdin.close()


def _save(file: Path, said: IO[str], lesson: str) -> float:
    """Seconds until the verdict."""
    started = time.perf_counter()
    file.write_text(file.read_text("utf-8") + "# saved\n", "utf-8")
    _verdict(said, lesson)
    return time.perf_counter() - started


def _verdict(said: IO[str], lesson: str) -> None:
    """Read until it is shown.

    Raises:
        ValueError: not all tests passed.
    """
    while line := said.readline():
        if line.startswith(f"{lesson} · "):
            verdict = said.readline() + said.readline()
            if not verdict.strip().startswith("All "):
                raise ValueError(f"expected the tests of {lesson} to pass, got {verdict.strip()}")
            return
    raise ValueError(f"make watch ended before {lesson} had a verdict")


def _cpu(process: int) -> float:
    """Seconds of make watch, of its warm process, and of the runs that have ended."""
    root = psutil.Process(process)
    return sum(sum(one.cpu_times()[:4]) for one in (root, *root.children()))


def _peak(process: int, work: Callable[[], object]) -> float:
    """MiB that all processes held together while this was done."""
    done, seen = threading.Event(), [0.0]

    def look() -> None:
        while not done.wait(0.02):
            sizes = 0
            for one in (psutil.Process(process), *psutil.Process(process).children(recursive=True)):
                try:
                    sizes += one.memory_full_info().pss
                except (psutil.Error, OSError):  # it has ended
                    continue
            seen.append(sizes / 2**20)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return max(seen)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m testcases.benchmarks.saving", description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", type=int, default=list(TARGETS), help="1 to 9, if left out")
    parser.add_argument("--saves", type=int, default=5, help="of which the median counts")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a student's Python keeps what it has compiled
    table = Table(title="from saving to the verdict", title_justify="left")
    for column in ("lesson", "target (s)", "median (s)", "fastest", "slowest", "CPU (s)", "first (s)", "peak (MiB)"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        course = own_course(Path(folder))
        for number in options.lessons:
            first, found, peak = measure(course, number, options.saves)
            walls = [wall for wall, _ in found]
            target = f"{TARGETS[number]:.1f}" if number in TARGETS else "-"
            numbers = (median(walls), min(walls), max(walls), median(cpu for _, cpu in found), first)
            table.add_row(str(number), target, *(f"{one:.2f}" for one in numbers), f"{peak:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
