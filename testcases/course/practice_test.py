"""The practice programs of the lessons print what their texts say they print, up to what another machine changes."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from testcases.course.students import HANGS
from testcases.harness.catalog import ROOT

PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```\n(.*?)^```$|\A\s*\|[^\n]*\n\|[-| ]*\n((?:\|[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
"""A fence, or the rows of a table directly below the program."""
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e\d+)?")
NEXT = "---- next program ----"
ROOM = {"lesson05": 0.1, "lesson09": 0.5, "lesson11": 0.5, "lesson12": 0.5}
"""Lessons in which a policy learns from samples: one token drawn otherwise changes the digits of all that follows."""
OF_A_MODEL = ("lesson02", "lesson09", "lesson11", "lesson12", "lesson13")
"""Lessons whose practice samples or scores texts: it shows some of them."""


def programs(path: Path) -> list[tuple[str, str | None]]:
    """Each program of a text, and what stands below it as its output."""
    pieces = PROGRAM.split(path.read_text("utf-8"))
    found = []
    for code, below in zip(pieces[1::2], pieces[2::2], strict=True):
        said = OUTPUT.search(re.split(r"^## ", below, maxsplit=1, flags=re.MULTILINE)[0])
        found.append((code, said[1] or said[2] if said else None))
    return found


TEXTS = [
    path
    for path in sorted((ROOT / "tutorial").glob("lesson*/*.md"))
    if any(said for _, said in programs(path)) and "lesson00" not in path.parent.name
]


def output_of(codes: list[str]) -> list[str]:
    """What each of these programs prints, all in one process."""
    whole = f"\nprint({NEXT!r})\n".join(codes).replace("from tutorial.", "from solutions.")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        [sys.executable, "-c", whole], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(f"{NEXT}\n")


def differing(said: str, got: str, room: float = 0.01) -> str | None:
    """What is wrong with an output, or None: its numbers in their order, each within 0.02 and this share of it."""
    wanted, found = ([float(one) for one in NUMBER.findall(text)] for text in (said, got))
    if len(wanted) != len(found):
        return f"expected {len(wanted)} numbers, got {len(found)}:\n{got}"
    far = [(a, b) for a, b in zip(wanted, found, strict=True) if abs(a - b) > 0.02 + room * abs(a)]
    return f"said and printed: {far}\n{got}" if far else None


class Change(NamedTuple):
    """What a fold of a lesson says about one of its programs with these pieces replaced."""

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
    Change(
        "lesson12",
        "missing_stop_penalty=0",
        "1.84 96",
        {**ONE_RUN, SETTINGS: f"    config = replace(config, missing_stop_penalty=0.0)\n{SETTINGS}"},
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("path", TEXTS, ids=[f"{path.parent.name[:8]}-{path.stem}" for path in TEXTS])
def test_a_practice_program_prints_what_its_text_says(path: Path):
    """Also changed, as a fold below it asks for."""
    lesson, text, shown = path.parent.name[:8], path.read_text("utf-8"), programs(path)
    changes = [change for change in CHANGES if change.lesson == lesson and path.stem == "README"]
    last = max(place for place, (_, said) in enumerate(shown) if said)
    codes = [code for code, _ in shown[: last + 1]] + [changed(shown, change) for change in changes]
    outputs = output_of(codes)
    wrong = [
        problem
        for (_, said), got in zip(shown[: last + 1], outputs, strict=False)
        if said and (problem := differing(said, got, ROOM.get(lesson, 0.01)))
    ]
    assert not wrong, "\n\n".join(wrong)
    for change, output in zip(changes, outputs[last + 1 :], strict=True):
        assert not (missing := unsaid(text, change, output)), (change.question, missing, output)


def changed(shown: list[tuple[str, str | None]], change: Change) -> str:
    code, _ = shown[change.program]
    for old, new in change.edits.items():
        assert old in code, old
        code = code.replace(old, new)
    return code


def unsaid(text: str, change: Change, output: str) -> list[str]:
    """The numbers that the program does not print, to the digits given, or that the answer does not contain."""
    (answer,) = re.findall(rf"<summary>[^\n]*{re.escape(change.question)}[^\n]*\n(.*?)</details>", text, re.DOTALL)
    shown = [abs(float(number)) for number in NUMBER.findall(output)]
    return [
        number
        for number in change.said.split()
        if number not in answer.replace("Exactly 0", "0")
        or not any(abs(value - float(number)) <= 0.6 * 10 ** -len(number.partition(".")[2]) for value in shown)
    ]


@pytest.mark.parametrize("lesson", OF_A_MODEL)
def test_a_practice_with_a_model_shows_a_text_of_it(lesson: str):
    """Five words of the language in a row, at least."""
    (folder,) = (ROOT / "tutorial").glob(f"{lesson}_*")
    outputs = "\n".join(said for _, said in programs(folder / "README.md") if said)
    assert re.search(r"(\b[a-z]+ ){4}[a-z.]+", outputs)


def test_a_number_that_drifted_is_found():
    assert differing("mean 9.99, 3 rows", "mean 10.02, 3 rows") is None
    assert "7.31" in str(differing("lam 0: mean 7.31", "lam 0: mean 8.31"))
    assert "expected 2 numbers, got 1" in str(differing("a 1 b 2", "a 1"))
    fold = "<details><summary>Why 7?</summary>\n\nThe mean is 0.43.\n\n</details>"
    assert unsaid(fold, Change("", "Why 7", "0.43", {}), "mean 0.4301") == []
    assert unsaid(fold, Change("", "Why 7", "0.43", {}), "mean 0.4401") == ["0.43"]
    assert unsaid(fold, Change("", "Why 7", "0.44", {}), "mean 0.4401") == ["0.44"]
