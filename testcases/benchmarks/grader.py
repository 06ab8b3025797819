"""How fast a class is graded: seconds, memory and processor time of each submission, for two sizes of the class.

    python -m testcases.benchmarks.grader                            25 and 100 submissions of lessons 1 to 6
    python -m testcases.benchmarks.grader --submissions 12 --lessons "1 2 3 4 5 6 7 8 9 10 11 12" --sample 1

make check as it is, with a job for each core (or --jobs); with --sample also one pytest process for each lesson of so
many submissions, before, between and after, so that the ratio means something even where the seconds do not. In a
submission each exercise is as in the solutions, another right answer of the lesson's bank, a wrong one, or not started.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from testcases.engine.catalog import END, REGION, ROOT, SOLUTIONS, regions
from testcases.engine.catalog import lesson as read_lesson
from testcases.engine.oracle import Change, region_text, right_answers, wrong_answers
from testcases.grader.intake import course_files

WRONG, OTHER, NOT_STARTED = 0.25, 0.25, 0.1
"""How often an exercise is wrong, right in another way, and not started."""


def write_submission(folder: Path, number: int, lessons: list[str]) -> None:
    """One student; the same number gives the same files."""
    chance = random.Random(number)
    for path in course_files():
        lesson = path.partition("/")[0]
        if lesson not in lessons:
            continue
        lines = (SOLUTIONS / path).read_text("utf-8").splitlines()
        for region in reversed(regions(SOLUTIONS / path)):
            indent = lines[region.first].partition(REGION)[0]
            text = textwrap.indent(answer(lesson, region.exercise, chance), indent)
            lines[region.first + 1 : region.last] = text.splitlines()
        kept = [line for line in lines if line.strip() not in (REGION, END)]
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join([*kept, f"# student {number}", ""]), "utf-8")


def answer(lesson: str, exercise: str, chance: random.Random) -> str:
    """The lines of one exercise."""
    kind = chance.random()
    if kind < NOT_STARTED:
        return f'raise NotImplementedError("{read_lesson(lesson).short}: {exercise}")'  # as the stub has it
    bank = wrong_answers(lesson) if kind < NOT_STARTED + WRONG else right_answers(lesson)
    changes = [one.change for one in bank if one.exercise == exercise and isinstance(one.change, Change)]
    text = region_text(lesson, exercise)
    return chance.choice(changes).apply(text) if changes and kind < NOT_STARTED + WRONG + OTHER else text


@contextlib.contextmanager
def processor_time() -> Iterator[list[float]]:
    """Appends the seconds of everything that is started inside, if cgroup v1 counts them here: workers are killed by
    others than their parents, which then do not know.
    """
    group, found = Path("/sys/fs/cgroup/cpuacct") / f"bench-{os.getpid()}", list[float]()
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        yield found
        return
    start = int((group / "cpuacct.usage").read_text("ascii"))
    try:
        yield found
    finally:
        found.append((int((group / "cpuacct.usage").read_text("ascii")) - start) / 1e9)
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        with contextlib.suppress(OSError):  # A process of it is still ending.
            group.rmdir()


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


def grade(folder: Path, out: Path, options: argparse.Namespace) -> tuple[float, str, tuple[int, int]]:
    """Seconds, those of the processors, and MiB in the two halves."""
    command = [sys.executable, "-m", "testcases.grader", str(folder), "--out", str(out)]
    command += ["--jobs", options.jobs, "--lessons", options.lessons]
    with processor_time() as spent:
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        memory = Memory(process.pid)
        memory.start()
        if process.wait() != 0:
            raise SystemExit(f"error: the grader ended with {process.returncode}")
        seconds, held = time.monotonic() - start, memory.end()
    return seconds, f"{spent[0]:.0f}" if spent else "not counted", held


def run_pytest(submission: Path, lessons: list[str]) -> float:
    """Seconds of one process for each lesson."""
    start = time.monotonic()
    for lesson in lessons:
        command = [sys.executable, "-m", "pytest", f"testcases/{lesson}", f"--subject={submission}"]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="The speed of the grader.")
    parser.add_argument("--submissions", type=int, default=100, help="a quarter of them is graded first")
    parser.add_argument("--lessons", default="1 2 3 4 5 6")
    parser.add_argument("--sample", type=int, default=0, help="how many of them pytest runs as well")
    parser.add_argument("--jobs", default="", help="of make check (default: one a core)")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    lessons = [read_lesson(name).name for name in options.lessons.split()]
    table = Table("", "submissions", "seconds", "seconds each", "of processors", "MiB, first half", "MiB, second half")
    with tempfile.TemporaryDirectory(prefix="bench-") as top:
        folder, part = Path(top) / "all", Path(top) / "part"
        for number in range(options.submissions):
            write_submission(folder / f"student{number:03}", number, lessons)
            if number % 4 == 0:
                write_submission(part / f"student{number:03}", number, lessons)
        spent = []
        for round_, place in enumerate((part, folder)):
            sample = range(round_, options.sample, 3)
            spent += [run_pytest(folder / f"student{number:03}", lessons) for number in sample]
            count = len(list(place.iterdir()))
            seconds, processors, held = grade(place, Path(top) / f"out-{place.name}", options)
            cells = [f"{seconds:.0f}", f"{seconds / count:.2f}", processors, *map(str, held)]
            table.add_row("make check", str(count), *cells)
        spent += [run_pytest(folder / f"student{number:03}", lessons) for number in range(2, options.sample, 3)]
    if spent:
        table.add_row("pytest", str(len(spent)), f"{sum(spent):.0f}", f"{sum(spent) / len(spent):.1f}", "", "", "")
    Console().print(table)


if __name__ == "__main__":
    main()
