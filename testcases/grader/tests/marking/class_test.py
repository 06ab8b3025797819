"""A whole class: thirty people, whose names have stopped other graders, in six layouts, three of them hostile."""

import re
import shutil
from pathlib import Path

import pytest

from testcases.grader.tests.running import LESSON, SECRET, TARGET, check, packed, put, results, table
from testcases.grader.text import clean
from testcases.harness.catalog.lessons import SOLUTIONS, TUTORIAL
from testcases.harness.suite.runner import entries

pytestmark = pytest.mark.slow

RIGHT = re.sub(r"^\s*# (end)?region.*\n", "", (SOLUTIONS / TARGET).read_text("utf-8"), flags=re.MULTILINE)
WRONG = RIGHT.replace(".masked_fill(dones.bool(), 0.0)", "")
STUB = (TUTORIAL / TARGET).read_text("utf-8")
HOSTILE = {
    "endless": RIGHT + "\n\ndef td_errors(*given, **named):\n    while True:\n        pass\n",
    "exits": RIGHT + "\n\nimport os\nos._exit(0)\n",
    "deep": f"{STUB}\n\ndef table():\n    return {' + '.join(['1'] * 2000)}\n",
}
NAMES = (
    "O'Brien Seán,Müller-Lüdenscheidt,李小龍,علي محمد,Nguyễn Ân,🎓 Lee Zoë,Davis; Jr.,Null,Æ A-12,Prince,Ng,Ann Smith,"
    "ann smith,Kim Min-jun,Kim Minjun,Wu Li,Wu Lili,=SUM(A1),<b>Bo</b>,X Y,Łukasz,İlker,Zoe,Cem Öz,Dee Day,"
    "Eva De la Cruz,Fay,Gus,Hal,\udcdcbung"  # The last in bytes of Windows.
).split(",")
TEXTS = [RIGHT, WRONG, STUB, STUB, ""] * 6
POINTS = sum(entry.points for entry in entries("lesson04_gae"))
LIMITS = "call_seconds=1,grace_seconds=0.5,import_seconds=2"


def lay_out(folder: Path) -> dict[str, str]:
    """Five people in each layout; the folder of each in the table -> what they handed in."""
    wanted, authors = {}, "---\n"
    for number, (name, text) in enumerate(zip(NAMES, TEXTS, strict=True)):
        layout, plain = number // 5, "".join(letter for letter in name.lower() if letter.isalnum())
        if number in (4, 14, 24):
            text = [*HOSTILE.values()][number // 10]
        files: dict[str, str | bytes]
        key, files = (
            (f"{plain}_{number}", {f"{plain}_{number}_9{number}_gae.py": text}),
            (
                f"{name}_{number}",
                {f"{name}_{number}_assignsubmission_file/hw.zip": packed({f"hw/tutorial/{TARGET}": text})},
            ),
            (f"submission_{number}", {f"submission_{number}/gae.py": text}),
            (f"hw1-{plain}", {f"hw1-{plain}/tutorial/{TARGET}": text, f"hw1-{plain}/.git/HEAD": ""}),
            (name, {f"{name}/{TARGET}": text}),
            (name, {f"{name}.zip": packed({f"hw/{TARGET}": text})}),
        )[layout]
        authors += f"{key}:\n  :submitters:\n  - :name: {name!r}\n    :email: p{number}@x.edu\n" if layout == 2 else ""
        put(folder, files)
        wanted[clean(key)] = text
    (folder / "submission_metadata.yml").write_text(authors, "utf-8")
    return wanted


def test_everybody_has_a_line_and_the_second_run_keeps_what_was_edited(bubblewrap: None, tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    wanted = lay_out(folder)
    told = str(folder), "--out", str(out), "--jobs", "2", *LESSON, "--limits", LIMITS
    done = check(*told, SECRET=SECRET)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    lines = {line["folder"].lstrip("'"): line for line in table(out)}
    assert set(lines) == set(wanted) and len(lines) == 30
    for key, text in wanted.items():
        points = int(lines[key]["points"] or -1)
        if text == RIGHT:
            assert points == POINTS and not lines[key]["flags"], lines[key]
        elif text == WRONG:
            assert 0 < points < POINTS, lines[key]
        elif text != HOSTILE["endless"]:
            assert points == 0, lines[key]
    looks = (out / "report/index.html").read_text("utf-8").partition("Mistakes by")[0].partition("Look at these")[2]
    shown = re.findall(r"<bdi>(.*?)</bdi>.*?<span class=\"badge \w+\">(.*?)</span>", looks, re.DOTALL)
    assert {kind for _, kind in shown} == {"killed", "does not load"} and len(shown) >= 2, shown
    written = {path.name: path.stat().st_mtime_ns for path in (out / "results").iterdir()}

    text = (out / "marks.csv").read_text("utf-8-sig")
    key = next(key for key, text in wanted.items() if text == WRONG)
    row = next(line for line in text.splitlines() if line.startswith(key))
    cells = row.split(",")
    cells[4], cells[8] = "7", "Nearly!"
    (out / "marks.csv").write_text(text.replace(row, ",".join(cells)), "utf-8-sig")
    shutil.rmtree(out / "report")
    done = check(*told, SECRET=SECRET)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.stat().st_mtime_ns for path in (out / "results").iterdir()} == written, "graded twice"
    (line,) = [line for line in table(out) if line["folder"] == key]
    assert (line["score"], line["comment"], line["flags"]) == ("7", "Nearly!", "a mark by hand")
    assert any(line.endswith(",7") for line in (out / "canvas.csv").read_text("utf-8").splitlines())
    assert len(list((out / "report/students").iterdir())) == len(results(out)) == 30
