"""A mistake is paid once: what is right with the solution's version of what it calls keeps its points, at home and in
`make check` alike."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest

from testcases.grader.tests.running import TARGET, check, results, solved
from testcases.harness.catalog import ROOT, lesson_names, region_text
from testcases.harness.execution import executor
from testcases.harness.oracle.mutations import changed_source, published_answers, wrong_answers
from testcases.harness.report.errors import Kept
from testcases.harness.suite.asserts import named
from testcases.harness.suite.runner import cases_of, entries
from testcases.harness.suite.session import Engine

MISTAKE = "lesson01_masked_sequences", "gather_log_probs", "temperature_ignored"
"""Lesson, exercise and the mistake made in it: `response_log_probs` is right but for that."""
CALL = "deltas = td_errors(rewards, values, dones, gamma)"
COPIED = "deltas = rewards + gamma * values[..., 1:] - values[..., :-1]"
RIGHT_COPY = COPIED.replace("values[..., 1:]", "values[..., 1:].masked_fill(dones.bool(), 0.0)")
OWN = {
    "the-mistake-is-copied": (CALL, COPIED),
    "right-and-thrown-away": (CALL, f"td_errors(rewards, values, dones, gamma)\n{RIGHT_COPY}"),
    "called-and-thrown-away": (CALL, f"td_errors(rewards, values, dones, gamma)\n{COPIED}"),
    "a-mistake-of-its-own": (CALL, CALL.replace("gamma", "gamma * gamma")),
}
ENDLESS = "while True:\n    pass"
CALLERS = "gae_ends", "n_step_advantages", "compute_gae", "compute_response_gae"
LATER = "lesson02_reward_model"
LESSON = "lesson04_gae"
PUBLISHED = {one.exercise: one for one in reversed(published_answers(LESSON))}
RIGHT = "Your formula is right; this is about"


def student(folder: Path, *mistakes: tuple[str, str, str]) -> Path:
    """Everything solved, with these mistakes."""
    solved(folder, *lesson_names())
    for lesson, exercise, name in mistakes:
        (wrong,) = [one for one in wrong_answers(lesson) if (one.exercise, one.name) == (exercise, name)]
        path, text = changed_source(lesson, wrong)
        (folder / path).write_text(text, "utf-8")
    return folder


def rewritten(path: Path, exercise: str, change: Callable[[str], str]) -> None:
    """Give an exercise in a student's file another text."""
    old = region_text(path.parent.name, exercise)
    before, after = (indent(code, "    ") for code in (old, change(old)))
    text = path.read_text("utf-8")
    assert text.count(before) == 1 and after != before
    path.write_text(text.replace(before, after), "utf-8")


def kept(folder: Path, lesson: str, exercise: str) -> tuple[str, ...]:
    engine = Engine(executor.InProcess(folder), pays_once=True)
    with engine.active():
        return engine.right_with(lesson, exercise)


def test_what_calls_a_function_that_never_ends_keeps_its_points(tmp_path: Path):
    folder = student(tmp_path)
    rewritten(folder / TARGET, "td_errors", lambda _: ENDLESS)
    with Engine(executor.InProcess(folder), pays_once=True, seconds=0.2).active():
        verdicts = [case.run() for name in CALLERS for case in cases_of(LESSON, name)]
    assert {type(verdict) for verdict in verdicts} == {Kept}


@named("old, new", OWN)
def test_what_is_wrong_itself_or_calls_nothing_keeps_nothing(tmp_path: Path, old: str, new: str):
    folder = student(tmp_path, ("lesson04_gae", "td_errors", "dones_ignored"))
    rewritten(folder / TARGET, "compute_gae", lambda text: text.replace(old, new))
    assert kept(folder, "lesson04_gae", "compute_gae") == ()
    assert kept(folder, "lesson04_gae", "gae_ends") == ("td_errors",)


BETWEEN = {"a-function": "def between(*given):\n    return td_errors(*given)", "another-name": "between = td_errors"}


@named("between", BETWEEN)
def test_what_calls_it_by_way_of_a_helper_keeps_its_points(tmp_path: Path, between: str):
    folder = student(tmp_path, ("lesson04_gae", "td_errors", "dones_ignored"))
    rewritten(folder / TARGET, "compute_gae", lambda text: text.replace(CALL, CALL.replace("td_errors", "between")))
    with (folder / TARGET).open("a", encoding="utf-8") as file:
        file.write(f"\n\n{between}\n")
    assert kept(folder, "lesson04_gae", "compute_gae") == ("td_errors",)


def test_what_calls_a_later_exercise_is_given_no_answer(tmp_path: Path):
    """The solution's ranking loss of two responses is the pairwise loss."""
    folder = student(tmp_path)
    (path,) = [one for one in (folder / LATER).glob("*.py") if "def ranking_loss" in one.read_text("utf-8")]
    pair = "torch.stack([chosen - (0 if margin is None else margin), rejected], -1)"
    rewritten(path, "pairwise_loss", lambda _: f"return ranking_loss({pair})")
    rewritten(path, "ranking_loss", lambda _: "return scores.sum()")
    assert kept(folder, LATER, "pairwise_loss") == ()


@pytest.mark.slow
def test_pytest_and_make_check_give_the_same_points(bubblewrap: None, tmp_path: Path):
    """To a mistake that is paid once beside published formulas, and to a function that never ends."""
    lee, eli = student(tmp_path / "lee", MISTAKE), student(tmp_path / "eli")
    for exercise, one in PUBLISHED.items():
        rewritten(lee / TARGET, exercise, one.change.apply)
    rewritten(eli / TARGET, "td_errors", lambda _: ENDLESS)
    for folder, lesson in (lee, MISTAKE[0]), (lee, LESSON), (eli, LESSON):
        shutil.copytree(folder / lesson, tmp_path / "in" / folder.name / lesson)
    suites = f"testcases/{MISTAKE[0]}", f"testcases/{LESSON}"
    command = [sys.executable, "-m", "pytest", *suites, f"--subject={lee}", "-p", "no:cacheprovider"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    basic = sum(entry.points for entry in entries(LESSON) if entry.is_basic)
    assert re.search(rf"\(formula {basic}/{basic}, safe \d+/\d+\)", said), said
    assert f"{RIGHT} NaN or infinity among the numbers." in said
    # What never ends waits for its limits at home: the test of it above has shown what is kept there.
    home = {
        "lee": {name: int(points) for name, points in re.findall(r"^(lesson\w+) +[#.]+ +(\d+)/", said, re.M)},
        "eli": {LESSON: sum(entry.points for entry in entries(LESSON) if entry.exercise in CALLERS)},
    }
    asked = "--lessons", "1 4", "--limits", "call_seconds=0.6,grace_seconds=0.3"  # What is right needs milliseconds.
    done = check(str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--jobs", "2", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, result in results(tmp_path / "out").items():
        assert {lesson: one["score"] for lesson, one in result["lessons"].items() if one["score"]} == home[name], name
        full = sum(entry.points for lesson in home[name] for entry in entries(lesson))
        assert 0.5 * full < sum(home[name].values()) < full, name
    found = results(tmp_path / "out")["lee"]["lessons"][LESSON]["exercises"]
    tests = [test for exercise in found.values() for test in exercise["tests"]]
    lost = {test["id"] for test in tests if test["score"] < test["max_score"]}
    assert lost and not lost.intersection(entry.test for entry in entries(LESSON) if entry.is_basic)
    assert all(found[exercise]["told"].startswith(RIGHT) for exercise in PUBLISHED)
