"""What one submission may take of everybody's time, and what is left of it where a run is ended from outside."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.intake.submissions import Submission
from testcases.grader.marking.assignment import course_points
from testcases.grader.marking.grade import Grader, Secret
from testcases.grader.sandbox.sandbox import Limits, Sandbox
from testcases.grader.sandbox.worker_client import _Worker
from testcases.grader.tests.forks import LONGEST
from testcases.grader.tests.running import check, results, solved, start
from testcases.harness.catalog import SOLUTIONS

pytestmark = pytest.mark.slow
LESSONS = "lesson04_gae", "lesson05_ppo_loss"
LOOP = """
import time

right = globals().get("{name}")

def {name}(rewards, values, dones, *rest, **options):
    while {when}:
        time.sleep(1)
    return right(rewards, values, dones, *rest, **options)
"""


@pytest.fixture(scope="module")
def sandbox(bubblewrap: None) -> Iterator[Sandbox]:
    with Sandbox("bwrap", Limits()) as box:
        yield box


def graded(sandbox: Sandbox, after: str, limits: Limits) -> dict[str, dict[str, Any]]:
    """Exercise -> marks, where this stands below the solutions of each file."""
    sandbox.limits, sandbox.spent = limits, 0.0
    paths = [path for lesson in LESSONS for path in (SOLUTIONS / lesson).glob("[a-z]*.py")]
    files = {path.relative_to(SOLUTIONS).as_posix(): path.read_bytes() + after.encode() for path in paths}
    exercises = tuple(one for one in course_points() if one[0] in LESSONS)
    lessons = Grader(sandbox, Secret(), exercises).grade(Submission("ann", files=files))["lessons"].values()
    return {name: marks for lesson in lessons for name, marks in lesson["exercises"].items()}


def test_after_two_timeouts_an_exercise_is_asked_nothing_more_and_the_others_go_on(sandbox: Sandbox):
    limits = Limits(call_seconds=0.5, grace_seconds=0.3, import_seconds=0.3)
    loop = LOOP.format(name="n_step_advantages", when="rewards.dim() == 2")
    found = graded(sandbox, loop, limits)
    slow = [test["status"] for test in found["n_step_advantages"]["tests"]]
    assert slow.count("timeout") > 2 and found["n_step_advantages"]["status"] == "timeout"
    # What has passed before can't be asked with new numbers any more: nobody says that it was wrong on them.
    assert set(slow) == {"timeout", "not-asked"}
    assert {marks["status"] for name, marks in found.items() if name != "n_step_advantages"} == {"passed"}


@pytest.mark.parametrize(
    "top, tries", [("while True:\n    pass", 1), ("import os\nos._exit(0)", 2)], ids=["loops", "exits"]
)
def test_a_file_that_does_not_load_is_not_asked_again(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, top: str, tries: int
):
    """Whichever exercise asks, and whatever a search for causes puts into its text."""
    asked, load = [], _Worker.load
    monkeypatch.setattr(_Worker, "load", lambda one, *of: (asked.append(one.serves[0]), load(one, *of)))
    found = graded(sandbox, f"\n\n{top}\n", Limits(call_seconds=0.5, grace_seconds=0.3, import_seconds=1.5))
    assert Counter(asked) == dict.fromkeys(LESSONS, tries)
    assert {one["status"] for one in found.values()} <= {"timeout", "crash"}
    assert all(one["unloaded"] for one in found.values())
    assert tries > 1 or all("its file was not loaded after" in one["told"] for one in found.values())


def test_a_lesson_has_a_limit_of_its_own_and_what_it_did_not_ask_is_listed(sandbox: Sandbox):
    loop = LOOP.format(name="td_errors", when="True")
    found = graded(sandbox, loop, Limits(call_seconds=1.5, lesson_seconds=2.5))
    assert found["td_errors"]["status"] == "timeout" and found["compute_gae"]["status"] == "not-asked"
    assert "the calls of this lesson together took more than 2.5 seconds" in found["compute_gae"]["told"]
    assert found["update_beta"]["status"] == "passed"


def test_a_run_that_is_ended_has_the_lessons_that_were_done(bubblewrap: None, tmp_path: Path):
    ann, out = tmp_path / "in" / "ann", tmp_path / "out"
    solved(ann, "lesson04_gae", "lesson05_ppo_loss")
    (ann / "lesson05_ppo_loss" / "ppo_loss.py").write_text("import time\n\ntime.sleep(60)\n", "utf-8")
    told = str(tmp_path / "in"), "--out", str(out), "--jobs", "1", "--lessons", "td_errors compute_ppo_loss"
    told += "--limits", "call_seconds=0.5,grace_seconds=0.2,import_seconds=1"
    process, end = start(tmp_path, *told).process, time.monotonic() + LONGEST
    while not results(out) and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
    process.join()
    kept, lost = results(out)["ann"]["lessons"].values()
    assert kept["score"] == kept["max_score"] > 0
    assert {marks["status"] for marks in lost["exercises"].values()} == {"not-asked"}
    assert check(*told).returncode == 0
    again, late = results(out)["ann"]["lessons"].values()
    assert again == kept and {marks["status"] for marks in late["exercises"].values()} == {"timeout"}
