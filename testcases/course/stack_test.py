"""The student's own stack: nothing given is copied, nothing of theirs is replaced (capstone_test.py runs it)."""

import json
import re
from pathlib import Path

import pytest

from solutions.demo import __main__ as command
from solutions.demo import stack
from testcases.course import students
from testcases.harness.catalog import ROOT, SOLUTIONS
from testcases.harness.oracle.mutations import stub
from testcases.harness.suite.asserts import named


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course folder with everything solved."""
    return students.course_copy(tmp_path)


def test_the_text_lists_the_exercises_that_take_no_part() -> None:
    text = (ROOT / "tutorial/lesson12_capstone/README.md").read_text("utf-8")
    listed = re.findall(r"`([\w.]+)`", text.partition("can stay stubs:\n\n")[2].partition("\n\n")[0])
    names = {name for exercises in stack.LEFT_OUT.values() for name in exercises}
    assert set(listed) - {"compute_gae", "compute_ppo_loss"} == names


def refused(course: Path, out: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What the demo prints for this stack, which it doesn't run."""
    patch.setattr(command, "own_folder", lambda: course / "tutorial")
    assert command.main(["--out", str(out)]) == 1 and not out.exists()
    said = capsys.readouterr()
    return said.out, said.err


@named(
    "is_there, told",
    {
        "not-written": (True, "`estimate_kl` in tutorial/{} is not written yet; run the reference with make demo"),
        "no-file": (False, "there is no file tutorial/{}; make reset LESSON=6 brings it back"),
    },
)
def test_what_is_not_written_is_named_at_once(is_there, told, course, tmp_path, monkeypatch, capsys) -> None:
    file = "lesson06_kl_rewards/kl_rewards.py"
    (course / "tutorial" / file).unlink()
    if is_there:
        (course / "tutorial" / file).write_text(stub(SOLUTIONS / file), "utf-8")
    waiting = f"the demo is waiting for lesson 6: {told.format(file)}\n"
    assert refused(course, tmp_path / "out", monkeypatch, capsys) == ("", waiting)


@pytest.mark.slow
def test_the_first_lesson_that_is_wrong_is_named_before_the_run(course, tmp_path, monkeypatch, capsys) -> None:
    for file, old, new in (
        ("lesson04_gae/gae.py", "rewards + gamma", "rewards - gamma"),
        ("lesson06_kl_rewards/kl_rewards.py", "def estimate_kl(", "def estimate_kl((("),
    ):
        path = course / "tutorial" / file
        assert old in path.read_text("utf-8")
        path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    monkeypatch.setattr(stack, "LEFT_OUT", {4: stack.LEFT_OUT[4], 6: stack.LEFT_OUT[6]})
    said, error = refused(course, tmp_path / "out", monkeypatch, capsys)
    assert error == (
        "the demo is waiting for lesson 4, which does not agree with the reference: pytest testcases/lesson04_gae "
        "says where; run the reference with make demo\n"
    )
    assert "td_errors · wrong value" in said


RUNS = json.loads(stack.RECORDED.read_text("utf-8"))["runs"]


def test_the_verdict_knows_the_references_numbers_near_ones_and_far_ones() -> None:
    assert [run["seed"] for run in RUNS] == list(range(10))
    run = RUNS[3]
    assert "to the last digit" in stack.verdict(run)
    near = {**run, "ppo": {**run["ppo"], "proxy": run["ppo"]["proxy"] + 1e-6}}
    assert "landed within the range" in stack.verdict(near)
    far = stack.verdict({**run, "ppo": {**run["ppo"], "gold": 1.0}})
    assert "landed outside the range" in far and "ppo gold 1.00 (1.8" in far


def test_the_page_of_measured_numbers_shows_the_recorded_seeds() -> None:
    text = (ROOT / "book/pages/benchmarks.md").read_text("utf-8")
    for run in RUNS:
        gold = f"{run['sft']['gold']:.2f} | {run['ppo']['gold']:.2f}"
        assert f"| {run['seed']} | {run['reward_model']['accuracy']:.3f} | {gold} |" in text
