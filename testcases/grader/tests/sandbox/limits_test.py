"""What one submission may take of everybody's time, and what is left of it where a run is ended from outside."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.intake.submissions import Submission
from testcases.grader.marking.assignment import course_points
from testcases.grader.marking.grade import Grader, Secret
from testcases.grader.sandbox.sandbox import Limits, Sandbox
from testcases.grader.sandbox.worker_client import _Worker
from testcases.grader.tests.running import LONGEST, TARGET, check, results, solved, start
from testcases.harness.catalog import SOLUTIONS

pytestmark = pytest.mark.slow
LESSONS = "--lessons", "4 5"
QUICK = "call_seconds=0.5,grace_seconds=0.3,import_seconds=0.3"
SOURCE = (SOLUTIONS / TARGET).read_text("utf-8")
LOOP = """

def {name}(rewards, values, dones, *rest, **options):
    while {when}:
        pass
    return rewards * 0 + 7
"""
SLOW = """

def slowly(function, seconds=[0.3, 0.3]):
    def called(*given, **named):
        end = time.process_time() + (seconds.pop() if seconds else 0)
        while time.process_time() < end:
            pass
        return function(*given, **named)

    return called


import time
compute_gae = slowly(compute_gae)
"""
"""The first two calls in each worker take more than half of their time."""


def graded(folder: Path, limits: str, **loops: str) -> dict[str, dict[str, Any]]:
    """Exercise -> marks, of which one loops, and one is slow but right."""
    ((name, when),) = loops.items()
    solved(folder / "in" / "ann", "lesson04_gae", "lesson05_ppo_loss")
    (folder / "in" / "ann" / TARGET).write_text(SOURCE + SLOW + LOOP.format(name=name, when=when), "utf-8")
    done = check(str(folder / "in"), "--out", str(folder / "out"), "--jobs", "1", *LESSONS, "--limits", limits)
    assert done.returncode == 0, done.stdout + done.stderr
    lessons = results(folder / "out")["ann"]["lessons"].values()
    return {name: marks for lesson in lessons for name, marks in lesson["exercises"].items()}


def test_after_two_timeouts_an_exercise_is_asked_nothing_more_and_the_others_go_on(bubblewrap: None, tmp_path: Path):
    found = graded(tmp_path, QUICK, n_step_advantages="rewards.dim() == 1")
    slow = [test["status"] for test in found["n_step_advantages"]["tests"]]
    assert slow.count("timeout") > 2 and found["n_step_advantages"]["status"] == "timeout"
    assert {marks["status"] for name, marks in found.items() if name != "n_step_advantages"} == {"passed"}


@pytest.mark.parametrize(
    "top, tries", [("while True:\n    pass", 1), ("import os\nos._exit(0)", 2)], ids=["loops", "exits"]
)
def test_a_file_that_does_not_load_is_not_asked_again(
    bubblewrap: None, monkeypatch: pytest.MonkeyPatch, top: str, tries: int
):
    """Whichever exercise asks, and whatever a search for causes puts into its text."""
    asked, load = [], _Worker.load
    monkeypatch.setattr(_Worker, "load", lambda one, *of: (asked.append(one.serves[0]), load(one, *of)))
    lessons = "lesson04_gae", "lesson05_ppo_loss"
    files = {f"{one}/{path.name}": path.read_bytes() for one in lessons for path in (SOLUTIONS / one).glob("[a-z]*.py")}
    changed = {path: data + f"\n\n{top}\n".encode() for path, data in files.items()}
    limits = Limits(call_seconds=0.5, grace_seconds=0.3, import_seconds=2.5)
    with Sandbox("bwrap", limits) as sandbox:
        exercises = tuple(one for one in course_points() if one[0] in lessons)
        result = Grader(sandbox, Secret(), exercises).grade(Submission("ann", files=changed))
    assert Counter(asked) == dict.fromkeys(lessons, tries)
    for lesson in result["lessons"].values():
        assert {one["status"] for one in lesson["exercises"].values()} <= {"timeout", "crash"}
        assert all(one["unloaded"] for one in lesson["exercises"].values())
        if top.startswith("while"):
            assert all("its file was not loaded after" in one["told"] for one in lesson["exercises"].values())


def test_a_lesson_has_a_limit_of_its_own_and_what_it_did_not_ask_is_listed(bubblewrap: None, tmp_path: Path):
    found = graded(tmp_path, "call_seconds=9,lesson_seconds=8", td_errors="True")
    assert found["td_errors"]["status"] == "timeout" and found["compute_gae"]["status"] == "not-asked"
    assert "the calls of this lesson together took more than 8 seconds" in found["compute_gae"]["told"]
    assert found["update_beta"]["status"] == "passed"


def test_a_run_that_is_ended_has_the_lessons_that_were_done(bubblewrap: None, tmp_path: Path):
    ann, out = tmp_path / "in" / "ann", tmp_path / "out"
    solved(ann, "lesson04_gae", "lesson05_ppo_loss")
    (ann / "lesson05_ppo_loss" / "ppo_loss.py").write_text("import time\n\ntime.sleep(5)\n", "utf-8")
    (tmp_path / "asked.toml").write_text('exercises = ["lesson04.td_errors", "compute_ppo_loss"]\n', "utf-8")
    told = str(tmp_path / "in"), "--out", str(out), "--jobs", "1", "--assignment", str(tmp_path / "asked.toml")
    process, end = start(tmp_path, *told), time.monotonic() + LONGEST
    while not results(out) and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
    process.join()
    kept, lost = results(out)["ann"]["lessons"].values()
    assert kept["score"] == kept["max_score"] > 0
    assert {marks["status"] for marks in lost["exercises"].values()} == {"not-asked"}
    assert check(*told).returncode == 0
    again, late = results(out)["ann"]["lessons"].values()
    assert again == kept and {marks["status"] for marks in late["exercises"].values()} <= {"error", "missing"}
