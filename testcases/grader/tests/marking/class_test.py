"""A whole class: thirty people, whose names have stopped other graders, in six layouts, ten of them hostile."""

import re
import stat
from pathlib import Path

import pytest

from testcases.grader.marking.grade import answer_what_all_are_asked
from testcases.grader.tests.reports.data import edit, looked_at
from testcases.grader.tests.running import TARGET, check, packed, put, results, table, times
from testcases.grader.tests.sandbox.hostile import CASES
from testcases.grader.text import clean, name_of
from testcases.harness.catalog import SOLUTIONS, TUTORIAL
from testcases.harness.suite.runner import Case, entries

pytestmark = pytest.mark.slow

RIGHT = re.sub(r"^\s*# (end)?region.*\n", "", (SOLUTIONS / TARGET).read_text("utf-8"), flags=re.MULTILINE)
WRONG = RIGHT.replace(".masked_fill(dones.bool(), 0.0)", "")
STUB = (TUTORIAL / TARGET).read_text("utf-8")
DEEP = f"{STUB}\n\ndef table():\n    return {' + '.join(['1'] * 2000)}\n"
ATTACKS = (
    "loops ends-while-it-loads ends-in-a-call answers-too-much answers-what-equals-everything patches-imports "
    "raises-what-attacks forges-frames dies-while-it-loads"
).split()
HOSTILE = [DEEP, *(CASES[name].written[TARGET].decode() for name in ATTACKS)]
LONG = "x" * 240
NAMES = (
    "O'Brien Seán,Müller-Lüdenscheidt,李小龍,Kim Min-jun,Nguyễn Ân,🎓 Lee Zoë 👩🏽‍💻,Davis; Jr.,..\\c,علي محمد,"
    "<b>&amp;{{x}}[red],Ng,Ann Smith,ann smith,Kim Minjun,Prince,Wu Li,Wu Lili,Łukasz,Null,X Y,=SUM(A1),İlker,Zoe,"
    f"Ju\u0308rgen,{LONG},a\x1b[2J\nb,Fay,Gus,Hal,\udcdcbung"  # The last in bytes of Windows.
).split(",")
TEXTS = [RIGHT, WRONG, STUB, STUB, ""] + [RIGHT, STUB, STUB, STUB, STUB] * 5
"""Right work in each layout."""
HANDED_IN_BY = 4, 14, 24, 2, 3, 12, 13, 21, 23, 28
ASKED = "td_errors", "gae_ends"
"""The second one calls the first."""
POINTS = sum(entry.points for entry in entries("lesson04_gae") if entry.exercise in ASKED)
LIMITS = "call_seconds=0.7,grace_seconds=0.3,import_seconds=1.5,ends=1"


def lay_out(folder: Path) -> dict[str, str]:
    """Five people in each layout; the folder of each in the table -> what they handed in."""
    wanted, authors = {}, "---\n"
    for number, (name, text) in enumerate(zip(NAMES, TEXTS, strict=True)):
        layout, plain = number // 5, "".join(letter for letter in name.lower() if letter.isalnum())
        if number in HANDED_IN_BY:
            text = HOSTILE[HANDED_IN_BY.index(number)]
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
        wanted[name_of(key)] = text
    (folder / "submission_metadata.yml").write_text(authors, "utf-8")
    return wanted


def test_everybody_has_a_line_and_the_second_run_grades_only_what_is_new(bubblewrap: None, tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    wanted = lay_out(folder)
    told = str(folder), "--out", str(out), "--jobs", "2", "--lessons", " ".join(ASKED), "--limits", LIMITS
    done = check(str(folder), "--out", str(out), "--dry", "1", "--lessons", "4", "--points", "20")
    assert "30 found (" in done.stdout and "30 to grade" in done.stdout
    for system in ("folder", "archive", "Canvas", "Moodle", "GitHub", "Gradescope"):
        assert f"5 {system}" in done.stdout
    assert "PPO by Hand: 5 exercises, 20 points: lesson04_gae" in done.stdout and not out.exists()

    done = check(*told)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    lines = {line["folder"].lstrip("'"): line for line in table(out)}
    assert set(lines) == set(wanted) and len(lines) == 30
    for key, text in wanted.items():
        points = int(lines[key]["points"] or -1)
        if text == RIGHT:
            assert points == POINTS and not lines[key]["flags"], lines[key]
        elif text == WRONG:
            assert 0 < points < POINTS, lines[key]
        elif text in HOSTILE:
            assert points < POINTS, lines[key]
        else:
            assert points == 0, lines[key]
    assert {kind for _, kind in looked_at(out)} == {"tamper-suspected", "killed", "does not load"}
    assert "nothing is removed at a done" in (out / "report/index.html").read_text("utf-8")
    assert all(file.isascii() and one["student"] == clean(one["student"]) for file, one in results(out).items())
    td_errors = [one["lessons"]["lesson04_gae"]["exercises"]["td_errors"] for one in results(out).values()]
    for one in (one for one in td_errors if "removed" in str(one["causes"])):  # Without a report's words around them.
        assert one["causes"][0].startswith("nothing is removed") and "nothing is removed" not in one["told"]
        assert one["read"].startswith('tutorial/lesson04_gae/README.md, "')
    assert [path for path in (out, *out.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o077] == []

    # An edit, another text, a broken result, and one that is asked for: nothing else is graded again.
    graded, wrong = times(out), next(key for key, text in wanted.items() if text == WRONG)
    edit(out, wrong, score="7", comment="Nearly!")
    edit(out, "Fay", regrade="x")
    (folder / "Zoe" / TARGET).write_text(RIGHT, "utf-8")
    (out / "results/Gus.json").write_text('{"student": "Gu', "utf-8")
    done = check(*told)
    assert done.returncode == 0, done.stderr
    again = {name for name, when in times(out).items() if when != graded[name]}
    assert again == {"Fay.json", "Gus.json", "Zoe.json"}
    lines = {line["folder"].lstrip("'"): line for line in table(out)}
    assert [lines[wrong][name] for name in ("score", "comment", "flags")] == ["7", "Nearly!", "a mark by hand"]
    assert lines["Fay"]["regrade"] == "" and lines["Gus"]["points"] == "0"
    assert (lines["Zoe"]["points"], lines["Zoe"]["flags"]) == (str(POINTS), "")
    assert any(line.endswith(",7") for line in (out / "canvas.csv").read_text("utf-8").splitlines())
    assert len(list((out / "report/students").iterdir())) == len(results(out)) == 30


def test_a_test_that_breaks_on_this_machine_does_not_stop_the_class(monkeypatch: pytest.MonkeyPatch):
    asked = list[Case]()

    def breaks(case: Case) -> None:
        asked.append(case)
        raise RuntimeError("as on no other machine")

    monkeypatch.setattr(Case, "run", breaks)
    answer_what_all_are_asked((("lesson04_gae", "td_errors"),))
    assert len(asked) > 1
