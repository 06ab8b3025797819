"""pytest's exit status, and the few lines that a student reads of what doesn't count yet: as a shell sees them.

The status is 0 only if all that was asked for has passed, so a workflow that runs pytest can't take an empty file for a
solved one.
"""

import csv
import re
import shutil
from pathlib import Path

import pytest

from testcases.course.students import own_course, own_runs, run
from testcases.grader.tests.running import check
from testcases.harness.catalog import ROOT

LESSON = "lesson01_masked_sequences"
FILE = f"tutorial/{LESSON}/masked.py"
RIGHT = "return gather_log_probs(logits[:, prompt_length - 1 : -1], input_ids[:, prompt_length:], temperature)"
WRONG = "return gather_log_probs(logits[:, prompt_length:], input_ids[:, prompt_length:], temperature)"
POSITIONS = "is_real = attention_mask.long()\n    return (is_real.cumsum(dim=1) - 1) * is_real"
MASK = "return is_stop(responses, stop_token_ids).long().cumsum(dim=1) == 0"  # without the stop token
STUDENTS = {
    "untouched": {},
    "right-on-a-stub": {"response_log_probs": RIGHT},
    "wrong-on-a-stub": {"response_log_probs": WRONG},
    "some-of-each": {"response_log_probs": RIGHT, "position_ids": POSITIONS, "response_mask": MASK},
}
SUITE, MINE, POSITION_IDS = f"testcases/{LESSON}", ("-k", "response_log_probs"), ("-k", "position_ids")
NODE = f"{SUITE}/basic_test.py::test_position_ids_by_hand"
STATUS = {
    "untouched": [((SUITE,), 1), ((NODE,), 1), ((), 1)],
    "solved": [((), 0), ((SUITE, "-k", "no_such_test"), 5)],
    "some-of-each": [
        ((SUITE,), 1),
        ((SUITE, "-n", "2"), 1),
        ((SUITE, *MINE), 1),
        ((f"tutorial/{LESSON}", "--lf"), 1),
        ((SUITE, *POSITION_IDS), 0),
        ((NODE,), 0),
    ],
}
"""Student -> lists of arguments for pytest, and the exit status of each."""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small: it has lesson 1, and lesson 10 for a student's own tests."""
    folder = own_course(tmp_path_factory.mktemp("exit-status") / "course", ("lesson01", "lesson10"))
    shutil.rmtree(folder / "testcases/lesson10_bug_hunt")
    return folder


def write(course: Path, student: str) -> None:
    """Whatever this student has written in lesson 1, and nothing that an earlier run has kept."""
    text = (ROOT / ("solutions" if student == "solved" else "tutorial") / LESSON / "masked.py").read_text("utf-8")
    for exercise, body in STUDENTS.get(student, {}).items():
        stub = f'raise NotImplementedError("lesson01: {exercise}")'
        assert stub in text
        text = text.replace(stub, body)
    (course / FILE).write_text(text, "utf-8")
    for kept in (".progress", ".pytest_cache"):
        shutil.rmtree(course / kept, ignore_errors=True)


def progress(folder: Path) -> str:
    done = run(folder, "testcases.harness.student.progress")
    assert not done.stderr
    return done.stdout


def totals(shown: str) -> set[str]:
    """What the lesson is worth, as each of these lines says it; and of formula and safety each says the same."""
    parts = re.findall(r"lesson01\w+ .* points \(formula \d+/(\d+), safe \d+/(\d+)\)", shown)
    assert len(set(parts)) <= 1, shown
    return set(re.findall(r"lesson01\w+ .*/(\d+) points", shown))


@pytest.mark.slow
@pytest.mark.parametrize(
    "student", [pytest.param(one, marks=[pytest.mark.smoke] * (one == "untouched")) for one in STATUS]
)
def test_only_a_run_in_which_all_has_passed_ends_with_0_and_each_shows_the_same_total(course: Path, student: str):
    write(course, student)
    asked, statuses = zip(*STATUS[student], strict=True)
    found = own_runs(course, *asked)
    assert [status for status, _ in found] == list(statuses)
    shown = "".join(said for _, said in found) + progress(course)
    assert len(totals(shown)) == 1, shown


@pytest.mark.slow
def test_status_and_total_are_the_same_from_another_folder(course: Path, tmp_path: Path):
    write(course, "right-on-a-stub")
    found = [run(tmp_path, "pytest", str(course / SUITE), *MINE), run(course / "tutorial" / LESSON, "pytest", *MINE)]
    assert [one.returncode for one in found] == [1] * 2 and len(totals("".join(one.stdout for one in found))) == 1


@pytest.mark.slow
def test_progress_that_cannot_be_kept_is_a_line_and_costs_nothing(course: Path):
    write(course, "solved")
    (course / ".progress").write_text("", "utf-8")
    ((status, out),) = own_runs(course, (NODE,))
    (course / ".progress").unlink()
    assert status == 0 and "Your progress could not be kept: " in out and "your progress" in out, out


OWN = {
    "passes": ("", "assert True", 0),
    "skips": ("", "pytest.skip('later')", 1),
    "skips-the-file": ("pytest.skip('later', allow_module_level=True)", "assert True", 1),
    "expects-to-fail": ("@pytest.mark.xfail", "assert False", 1),
}


@pytest.mark.slow
def test_a_skip_of_a_students_own_test_is_no_pass(course: Path):
    names = "compute_gae", "compute_ppo_loss", "compute_rewards"
    others = "".join(f"def test_{name}():\n    assert True\n\n" for name in names)
    path = "tutorial/lesson10_bug_hunt/my_tests.py"
    texts = [
        {path: f"import pytest\n\n{others}{before}\ndef test_response_mask():\n    {body}\n"}
        for before, body, _ in OWN.values()
    ]
    found = own_runs(course, *[(path,)] * len(OWN), texts=texts)
    assert [status for status, _ in found] == [status for *_, status in OWN.values()]


@pytest.mark.slow
def test_an_exercise_is_tested_on_the_solution_of_a_stub_and_its_points_wait(course: Path):
    write(course, "right-on-a-stub")
    told = "response_log_probs runs on the solution's gather_log_probs. These points count once gather_log_probs is"
    for status, out in own_runs(course, (SUITE, *MINE), (SUITE, *MINE, "-n", "2")):
        assert status == 1 and told in out and "failed" not in out and re.search(r" 0/\d+ points", out)
        assert re.search(r"^\d+ passed,.* \d+ waiting in", out, re.MULTILINE), out
    out = progress(course)
    assert "response_log_probs (waiting)" in out
    shutil.copyfile(course / "solutions" / LESSON / "masked.py", course / FILE)
    ((_, out),) = own_runs(course, (SUITE, "-k", "gather_log_probs"))
    out += progress(course)
    assert "response_log_probs (waiting)" in out, "its own tests have not run since"
    ((status, out),) = own_runs(course, (SUITE,))
    assert status == 0 and re.search(r" (\d+)/\1 points  done", out)


@pytest.mark.slow
def test_a_failure_is_told_and_once_it_is_repaired_all_counts(course: Path):
    write(course, "wrong-on-a-stub")
    (status, first), (_, another) = own_runs(course, (SUITE, *MINE), (SUITE, *POSITION_IDS))
    assert status == 1 and "expected [[-0.693147, -0.510826]]" in first and "waiting" not in first, first
    assert "Likely cause: the logits aren't shifted" in first and "response_log_probs (failed)" in another
    told = r"Not counted yet: \d of these passes, because a stub would pass too\. That changes once all tests of resp"
    assert re.search(told, first), first
    shutil.copyfile(course / "solutions" / LESSON / "masked.py", course / FILE)
    ((status, last),) = own_runs(course, (SUITE, *MINE, "--lf"))
    assert status == 0 and "response_log_probs (" not in last, "also what has passed before, and did not count"


@pytest.mark.slow
def test_make_check_gives_the_points_that_pytest_shows(course: Path, tmp_path: Path):
    students, texts = ("wrong-on-a-stub", "some-of-each"), []
    for student in students:
        write(course, student)
        texts.append({FILE: (course / FILE).read_text("utf-8")})
        shutil.copytree(course / "tutorial" / LESSON, tmp_path / "in" / student / LESSON)
    found = own_runs(course, *[(SUITE,)] * len(students), texts=texts)
    shown = {name: re.findall(r"(\d+)/\d+ points", said) for name, (_, said) in zip(students, found, strict=True)}
    arguments = str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--jobs", "1", "--sandbox", "none"
    assert check(*arguments, "--lessons", "1").returncode == 0
    with open(tmp_path / "out/marks.csv", encoding="utf-8-sig", newline="") as file:
        assert {row["student"]: [row["points"]] for row in csv.DictReader(file)} == shown
    for page in (tmp_path / "out/report/students").iterdir():
        assert "These points count once gather_log_probs is written." in page.read_text("utf-8")
