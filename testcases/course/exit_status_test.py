"""pytest's exit status, and the few lines that a student reads of what doesn't count yet: as a shell sees them.

The status is 0 only if all that was asked for has passed, so a workflow that runs pytest can't take an empty file for a
solved one.
"""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testcases.course.students import HANGS
from testcases.harness.catalog.lessons import ROOT

LESSON = "lesson01_masked_sequences"
OTHERS = re.compile(r"lesson(?!01|10)\d\d.*|__pycache__|tests|course|benchmarks")
"""What the small course of these tests is without: it has lesson 1, and lesson 10 for a student's own tests."""

RIGHT = "return gather_log_probs(logits[:, prompt_length - 1 : -1], input_ids[:, prompt_length:], temperature)"
WRONG = "return gather_log_probs(logits[:, prompt_length:], input_ids[:, prompt_length:], temperature)"
POSITIONS = "is_real = attention_mask.long()\n    return (is_real.cumsum(dim=1) - 1) * is_real"
MASK = "return is_stop(responses, stop_token_ids).long().cumsum(dim=1) == 0"  # without the stop token
STUDENTS = {
    "untouched": {},
    "right-on-a-stub": {"response_log_probs": RIGHT},
    "wrong-on-a-stub": {"response_log_probs": WRONG},
    "one-done": {"position_ids": POSITIONS},
    "some-of-each": {"response_log_probs": RIGHT, "position_ids": POSITIONS, "response_mask": MASK},
}
SUITE, MINE = f"testcases/{LESSON}", ("-k", "response_log_probs")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exit-status") / "course"
    for name in ("solutions", "testcases", "tiny_models", "ppo_by_hand", "tutorial"):
        shutil.copytree(ROOT / name, folder / name, ignore=lambda _, names: {*filter(OTHERS.fullmatch, names)})
    shutil.rmtree(folder / "testcases/lesson10_bug_hunt")
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def write(course: Path, student: str) -> None:
    """Whatever this student has written in lesson 1, and nothing that an earlier run has kept."""
    given = (ROOT / "solutions" if student == "solved" else ROOT / "tutorial") / LESSON / "masked.py"
    text = given.read_text("utf-8")
    for exercise, body in STUDENTS.get(student, {}).items():
        stub = f'raise NotImplementedError("lesson01: {exercise}")'
        assert stub in text
        text = text.replace(stub, body)
    (course / "tutorial" / LESSON / "masked.py").write_text(text, "utf-8")
    for kept in (".progress", ".pytest_cache"):
        shutil.rmtree(course / kept, ignore_errors=True)


def run(folder: Path, module: str, *arguments: str) -> tuple[int, str]:
    """Exit status, and what was printed."""
    around = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=around,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    return run(folder, "pytest", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    "student, arguments, status",
    [
        pytest.param("untouched", [SUITE], 1, marks=pytest.mark.smoke),
        ("untouched", [f"{SUITE}/basic_test.py::test_position_ids_by_hand"], 1),
        ("untouched", [], 1),
        ("solved", [], 0),
        ("one-done", [], 1),
        ("one-done", [SUITE], 1),
        ("one-done", [SUITE, "-k", "position_ids"], 0),
        ("one-done", [f"{SUITE}/basic_test.py::test_position_ids_by_hand"], 0),
        ("one-done", [SUITE, "-k", "position_ids", "-n", "2"], 0),
        ("right-on-a-stub", [SUITE, *MINE], 1),
        ("right-on-a-stub", [SUITE, *MINE, "-n", "0"], 1),
        ("right-on-a-stub", [SUITE, *MINE, "-n", "2"], 1),
        ("right-on-a-stub", [f"tutorial/{LESSON}", *MINE, "--lf"], 1),
        ("right-on-a-stub", [f"{SUITE}/basic_test.py::test_response_log_probs_by_hand"], 1),
        ("wrong-on-a-stub", [SUITE, *MINE], 1),
        ("solved", [SUITE, "-k", "no_such_test"], 5),
    ],
)
def test_only_a_run_in_which_all_has_passed_ends_with_0(course: Path, student: str, arguments: list[str], status: int):
    write(course, student)
    assert run_pytest(course, *arguments)[0] == status


@pytest.mark.slow
@pytest.mark.parametrize("student, status", [("right-on-a-stub", 1), ("solved", 0)])
def test_the_status_is_the_same_from_another_folder(course: Path, tmp_path: Path, student: str, status: int):
    write(course, student)
    assert run_pytest(tmp_path, str(course / SUITE), *MINE)[0] == status
    assert run_pytest(course / "tutorial" / LESSON, *MINE)[0] == status


@pytest.mark.slow
def test_the_points_of_a_lesson_are_the_same_however_its_tests_are_chosen(course: Path, tmp_path: Path):
    write(course, "some-of-each")
    node = f"{SUITE}/basic_test.py::test_position_ids_by_hand"
    chosen = [[SUITE, "-n", "0"], [SUITE, "-n", "2"], [SUITE, *MINE], [SUITE, "--lf"], [node]]
    shown = [run_pytest(course, *arguments)[1] for arguments in chosen]
    shown += [run_pytest(tmp_path, str(course / SUITE), *MINE)[1], run(course, "testcases.harness.student.progress")[1]]
    totals = [re.findall(r"lesson01\w+ .*/(\d+) points \(formula \d+/(\d+), safe \d+/(\d+)\)", out) for out in shown]
    assert totals[0] and totals == [totals[0]] * len(shown)


OWN = {
    "passes": ("", "assert True", 0),
    "skips": ("", "pytest.skip('later')", 1),
    "skips-the-file": ("pytest.skip('later', allow_module_level=True)", "assert True", 1),
    "expects-to-fail": ("@pytest.mark.xfail", "assert False", 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("before, body, status", OWN.values(), ids=OWN)
def test_a_skip_of_a_students_own_test_is_no_pass(course: Path, before: str, body: str, status: int):
    names = "compute_gae", "compute_ppo_loss", "compute_rewards"
    others = "".join(f"def test_{name}():\n    assert True\n\n" for name in names)
    path = course / "tutorial/lesson10_bug_hunt/my_tests.py"
    path.write_text(f"import pytest\n\n{others}{before}\ndef test_response_mask():\n    {body}\n", "utf-8")
    assert run_pytest(course, str(path))[0] == status


@pytest.mark.slow
def test_a_skip_of_the_course_is_no_fault_of_the_students(course: Path):
    write(course, "one-done")
    path = course / "testcases/needs_a_gpu_test.py"
    path.write_text("import pytest\n\ndef test_speed():\n    pytest.skip('there is no GPU')\n", "utf-8")
    assert run_pytest(course, str(path))[0] == 0
    assert run_pytest(course, str(path), f"{SUITE}/basic_test.py::test_position_ids_by_hand")[0] == 0


@pytest.mark.slow
def test_an_exercise_is_tested_on_the_solution_of_a_stub_and_its_points_wait(course: Path):
    write(course, "right-on-a-stub")
    told = "response_log_probs runs on the solution's gather_log_probs. These points count once gather_log_probs is"
    for processes in "0", "2":
        out = run_pytest(course, SUITE, *MINE, "-n", processes)[1]
        assert told in out and "failed" not in out and re.search(r" 0/\d+ points", out)
        assert re.search(r"^\d+ passed,.* \d+ waiting in", out, re.MULTILINE), out
    out = run(course, "testcases.harness.student.progress")[1]
    assert "response_log_probs (waiting)" in out and "These points count once gather_log_probs is written." in out
    assert re.search(r" 0/\d+ points", out)

    write(course, "wrong-on-a-stub")
    out = run_pytest(course, SUITE, *MINE)[1]
    assert "expected [[-0.693147, -0.510826]]" in out and "Likely cause: the logits aren't shifted" in out
    assert "waiting" not in out


@pytest.mark.slow
def test_once_the_stub_is_written_the_points_count(course: Path):
    write(course, "right-on-a-stub")
    run_pytest(course, SUITE)
    shutil.copyfile(course / "solutions" / LESSON / "masked.py", course / "tutorial" / LESSON / "masked.py")
    out = run_pytest(course, SUITE, "-k", "gather_log_probs")[1] + run(course, "testcases.harness.student.progress")[1]
    assert "response_log_probs (waiting)" in out and "waits" not in out, "what it waited for is written now"
    status, out = run_pytest(course, SUITE)
    assert status == 0 and re.search(r" (\d+)/\1 points  done", out)


@pytest.mark.slow
def test_a_failure_that_a_run_leaves_out_may_have_been_repaired_since(course: Path):
    write(course, "wrong-on-a-stub")
    run_pytest(course, SUITE, *MINE)
    assert "response_log_probs (failed earlier)" in run_pytest(course, SUITE, "-k", "position_ids")[1]


@pytest.mark.slow
def test_passes_that_a_stub_would_have_too_are_said_not_to_count(course: Path):
    write(course, "wrong-on-a-stub")
    out = run_pytest(course, SUITE, *MINE)[1]
    told = r"\d of these passes don.t count yet, because a stub would pass them too\. They count once all tests of resp"
    assert re.search(told, out), out


@pytest.mark.slow
@pytest.mark.parametrize("student", ["wrong-on-a-stub", "some-of-each"])
def test_make_check_gives_the_points_that_pytest_shows(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, student: str
):
    write(course, student)
    shown = re.search(r"(\d+)/\d+ points", run_pytest(course, SUITE)[1])
    shutil.copytree(course / "tutorial" / LESSON, tmp_path / "in/ann" / LESSON)
    monkeypatch.setenv("SECRET", "hedgehogs carry 128 bits")
    arguments = str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--jobs", "1", "--sandbox", "none"
    assert run(course, "testcases.grader", *arguments, "--lessons", "1")[0] == 0
    with open(tmp_path / "out/marks.csv", encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert shown and row["points"] == shown[1], row
    page = next((tmp_path / "out/report/students").iterdir()).read_text("utf-8")
    assert "These points count once gather_log_probs is written." in page
