"""Submissions that have stopped other graders: each costs itself alone, and the instructor sees all of it."""

import csv
import os
import re
import zipfile
from pathlib import Path

import pytest

from testcases.grader.tests.running import TARGET, from_the_start, grade, results, row
from testcases.harness.catalog.lessons import SOLUTIONS
from testcases.harness.catalog.points import manifest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("grader-batches")]

SOURCE = re.sub(r"^\s*# (end)?region.*\n", "", (SOLUTIONS / TARGET).read_text("utf-8"), flags=re.MULTILINE)
BEHIND = "from __future__ import annotations\n"
HIDDEN = f"# coding: utf-7\n# +AAo-{SOURCE.replace('+', '+-')}".encode()
POINTS = sum(entry.points for entry in manifest().values() if entry.lesson == "lesson04_gae")
FILES: dict[str, dict[str, str | bytes]] = {
    "deep": {TARGET: f"{SOURCE}\n\ndef table():\n    return {' + '.join(['1'] * 2000)}\n"},
    "utf7": {TARGET: HIDDEN},
    "helper": {TARGET: "from .util import *\n", "lesson04_gae/util.py": SOURCE, "below.py": "there = 1\n"},
    "far": {TARGET: "# nothing\n" * 12_000 + SOURCE},
    "stdout": {
        TARGET: SOURCE.replace(
            BEHIND,
            f'{BEHIND}import io, sys\nsys.stdout.reconfigure(encoding="utf-8")\nsys.stderr.fileno()\n'
            'assert not sys.stdout.isatty() and sys.stdout.encoding\nsys.stdout.buffer.write(b"a")\n'
            "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('ä')\n",
            1,
        )
    },
    "magics": {TARGET: f"get_ipython().run_line_magic('matplotlib', 'inline')\n{SOURCE.replace(BEHIND, '')}"},
    "exits": {TARGET: f"{SOURCE}\nimport sys\nsys.exit()\n"},
    "dies": {TARGET: f"{SOURCE}\nimport os\nos._exit(3)\n"},
    "imports": {TARGET: f"from . import util\n{SOURCE.replace(BEHIND, '')}", "lesson04_gae/util.py": "1 / 0\n"},
}
WHOLE = ("deep", "utf7", "helper", "far", "stdout")


def put(folder: Path, files: dict[str, str | bytes]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.fixture(scope="module")
def marked(bubblewrap: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("marked")
    for name, files in FILES.items():
        put(top / "in" / name, files)
    done = grade(top / "in", top / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    return top / "out"


def page(out: Path, name: str) -> str:
    (path,) = (out / "report/students").glob(f"{name}-*.html")
    return path.read_text("utf-8")


@pytest.mark.parametrize("name", WHOLE)
def test_each_has_what_its_code_earns(marked: Path, name: str):
    assert row(marked, name)["points"] == str(POINTS), results(marked)[name]["lessons"]


@pytest.mark.parametrize("name", [name for name in FILES if name not in WHOLE])
def test_a_file_that_dies_while_it_loads_is_looked_at(marked: Path, name: str):
    assert row(marked, name)["points"] == "0"
    listed = (marked / "report/index.html").read_text("utf-8").partition("Mistakes by")[0]
    (why,) = re.findall(rf"{name}</bdi>.*?does not load</span></td>\s*<td.*?>(.*?)</td>", listed, re.DOTALL)
    assert why.startswith(f"{TARGET}, ")
    said = {"magics": "line 1: NameError", "exits": "SystemExit", "dies": "ProcessExit", "imports": "line 1: Zero"}
    assert said[name] in why


def test_all_code_that_was_graded_is_on_the_page(marked: Path):
    for name in WHOLE:
        assert "return rewards + gamma" in page(marked, name), name
    assert "lesson04_gae/util.py" in page(marked, "helper") and "there = 1" in page(marked, "helper")
    assert "a strange encoding" in row(marked, "utf7")["flags"] and not row(marked, "far")["flags"]


def test_a_machine_without_utf8_grades_the_same_people(bubblewrap: None, tmp_path: Path):
    """And a name in bytes of Windows is no other's misfortune."""
    (tmp_path / "in").mkdir()
    for name in ("leeann_1_2_\udcdcbung.zip", "özcem_3_4_hw.zip"):
        with open(os.fsencode(tmp_path / "in" / name), "wb") as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(TARGET, SOURCE)
    (tmp_path / "class.csv").write_text('Student,ID,Section,HW (7)\n"Öz, Cem",3,A,\n"Lee, Ann",1,A,\n', "utf-8")
    old = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    told = ("--out", str(tmp_path / "out"), "--lessons", "4", "--roster", str(tmp_path / "class.csv"))
    done = from_the_start("testcases.grader", str(tmp_path / "in"), *told, **old)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "out/canvas.csv", encoding="utf-8", newline="") as file:
        marks = {found[0]: found[-1] for found in csv.reader(file)}
    assert [marks["Öz, Cem"], marks["Lee, Ann"]] == [str(POINTS)] * 2
