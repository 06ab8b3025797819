"""The practice programs of the lessons print what their texts say they print, up to what another machine changes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testcases.engine.catalog import ROOT
from testcases.selfcheck.students import HANGS

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


def printed(path: Path) -> list[str]:
    """What its programs print, one after the other in one process, on the solutions."""
    codes = [code for code, _ in programs(path)]
    last = max(place for place, (_, said) in enumerate(programs(path)) if said)
    whole = f"\nprint({NEXT!r})\n".join(codes[: last + 1]).replace("from tutorial.", "from solutions.")
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


@pytest.mark.slow
@pytest.mark.parametrize("path", TEXTS, ids=[f"{path.parent.name[:8]}-{path.stem}" for path in TEXTS])
def test_a_practice_program_prints_what_its_text_says(path: Path):
    wrong = [
        problem
        for (_, said), got in zip(programs(path), printed(path), strict=False)
        if said and (problem := differing(said, got, ROOM.get(path.parent.name[:8], 0.01)))
    ]
    assert not wrong, "\n\n".join(wrong)


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
