"""What the training runs of the lessons printed, once, on one processor: python -m testcases.course.records [lesson09].

Processors add in different orders. A run that learns amplifies this: one token is sampled differently, and all that
follows changes. So the texts print the digits of one recorded run (records.json), and a new run is held to what the
texts say of it: the order of rows, a sign, a bound with room (practice_test.py, one_screen_test.py). The command runs
the lessons again that are named, or all (ten minutes), writes the file, and says which texts print something else.
"""

import argparse
import contextlib
import io
import json
import platform
import re
import sys
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from testcases.harness.catalog import TUTORIAL

FILE = Path(__file__).with_suffix(".json")
TESTS = ("testcases/course/practice_test.py", "testcases/course/one_screen_test.py")
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```\n(.*?)^```$|\A\s*\|[^\n]*\n\|[-| ]*\n((?:\|[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
"""A fence, or the rows of a table directly below the program."""
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e\d+)?")
Rows = list[list[float]]
TRAINING = ("lesson02", "lesson05", "lesson09", "lesson11", "lesson12")
"""Lessons whose practice trains a model; of lesson 0 it is the lesson's own file."""


class Change(NamedTuple):
    """What a fold of a lesson says about one of its programs, with these pieces replaced if there are any."""

    lesson: str
    question: str
    said: str
    edits: dict[str, str]
    program: int = 0


TEMPERATURE = {"(0, 20, 10, 5, 1)": "(0,)", "generator=draw": "generator=draw, temperature=0.7"}
ONE_RUN = {"(0.0, 0.03, 0.09, 0.3, 1.0)": "(0.09,)"}
SETTINGS = "    policy = train_policy("
CHANGES = [
    Change("lesson04", "mean and standard deviation", "9.99 10.01 1.00 1.15 2.14 2.56 3.16", {"0.7 *": "1.0 *"}),
    Change(
        "lesson05", "1 step", "2.81 2.78 2.81", {"(1e9, 0.5, 0.2, 0.05)": "(1e9,)", "60, seed)": "60, seed, steps=1)"}
    ),
    Change(
        "lesson06",
        "nearer to the reference",
        "0.0021 0.0632 0.0020 0.00123",
        {"[0.5, 0.3, 0.15, 0.05]": "[0.27, 0.23, 0.26, 0.24]", ":.3f": ":.5f"},
        program=1,
    ),
    Change(
        "lesson06",
        "horizon = 20",
        "30 18.3 11.2 6.8 4.8 13.2",
        {"(200, 2000)": "(20,)", "(0, 9, 49, 99, 199, 399)": "range(6)"},
        program=2,
    ),
    Change("lesson07", "in train mode", "0.39 2.70 57", {", evaluation_mode(policy)": ""}),
    Change("lesson08", "sharper", "0.034 0.118 0.203 0.285 0.428", {"mul_(0.7)": "mul_(1.4)"}),
    Change("lesson08", "temperature=0.7", "0", TEMPERATURE),
    Change("lesson08", "temperature=0.7", "0.039", {**TEMPERATURE, "mul_(0.7)": "mul_(1.0)"}),
    Change("lesson08", "temperature=0.7", "0.031", {**TEMPERATURE, "seen, 6)": "seen, 6) / 0.7"}),
    Change("lesson09", "What do sixteen epochs gain", "142 14.3 19.0", {}),
    Change("lesson09", "so low with kl_coef = 0.5", "1.5", {}),
    Change("lesson09", "the critic explains nothing", "2.00", {}),
    Change(
        "lesson12",
        "missing_stop_penalty=0",
        "1.84 96",
        {**ONE_RUN, SETTINGS: f"    config = replace(config, missing_stop_penalty=0.0)\n{SETTINGS}"},
    ),
]
ONE_SCREEN = """
from tutorial.lesson00_one_screen import ppo
from tutorial.lesson00_one_screen.__main__ import line

for number, row in enumerate(ppo.train({kl_coef})):
    print(line(number, row))
"""


def programs(path: Path) -> list[tuple[str, str | None]]:
    """Each program of a text, and what stands below it as its output."""
    pieces = PROGRAM.split(path.read_text("utf-8"))
    found = []
    for code, below in zip(pieces[1::2], pieces[2::2], strict=True):
        said = OUTPUT.search(re.split(r"^## ", below, maxsplit=1, flags=re.MULTILINE)[0])
        found.append((code, said[1] or said[2] if said else None))
    return found


def readme(lesson: str) -> Path:
    (folder,) = TUTORIAL.glob(f"{lesson}_*")
    return folder / "README.md"


def changes(lesson: str) -> list[Change]:
    return [change for change in CHANGES if change.lesson == lesson]


def codes(path: Path) -> list[str]:
    """The programs of a text down to the last one whose output it shows, and those that its folds ask for."""
    lesson, shown = path.parent.name[:8], programs(path)
    last = max(place for place, (_, said) in enumerate(shown) if said)
    of_folds = [change for change in changes(lesson) if change.edits and path.stem == "README"]
    return [code for code, _ in shown[: last + 1]] + [changed(shown, change) for change in of_folds]


def changed(shown: list[tuple[str, str | None]], change: Change) -> str:
    code, _ = shown[change.program]
    for old, new in change.edits.items():
        assert old in code, old
        code = code.replace(old, new)
    return code


def output_of(codes: Iterable[str]) -> list[str]:
    """What each of these programs prints, one after the other in one namespace."""
    space, found = {"__name__": "__main__"}, []
    with torch.random.fork_rng(), warnings.catch_warnings(action="default"):
        for code in codes:
            with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
                exec(re.sub(r"from tutorial\.(?!lesson00)", "from solutions.", code), space)
            found.append(printed.getvalue())
    return found


def runs() -> dict[str, list[str]]:
    """Lesson -> its programs that train."""
    both = [ONE_SCREEN.format(kl_coef=kl_coef) for kl_coef in ("", 0.0)]
    return {"lesson00": both} | {lesson: codes(readme(lesson)) for lesson in TRAINING}


@cache
def recorded() -> dict[str, Any]:
    """Lesson -> `date`, `processor`, and `printed`: the lines of each of its programs."""
    return json.loads(FILE.read_text("utf-8"))


def printed(lesson: str) -> list[str]:
    """What each program of a lesson printed when it was recorded."""
    return ["\n".join(lines) + "\n" for lines in recorded()[lesson]["printed"]]


def rows(output: str) -> Rows:
    """The numbers of each line that has some."""
    return [[float(one) for one in found] for line in output.splitlines() if (found := NUMBER.findall(line))]


def is_line(said: str, recorded: str) -> bool:
    return said == recorded or (said.endswith(" ...") and recorded.startswith(said[:-3]))


def processor_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def run(lesson: str) -> dict[str, Any]:
    outputs = output_of(runs()[lesson])
    date = datetime.now(UTC).date().isoformat()
    return {"date": date, "processor": processor_name(), "printed": [output.splitlines() for output in outputs]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m testcases.course.records")
    parser.add_argument("lessons", nargs="*", help="such as lesson09; default: all")
    torch.set_num_threads(1)
    for lesson in parser.parse_args().lessons or runs():
        print(f"{lesson} ...", flush=True)
        found = run(lesson)
        others = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {}
        found = dict(sorted((others | {lesson: found}).items()))
        FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return pytest.main([*TESTS, "-k", "record", "--subject=solutions", "-p", "no:randomly"])


if __name__ == "__main__":
    sys.exit(main())
