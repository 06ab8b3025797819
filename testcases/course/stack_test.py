"""The student's own stack: nothing given is copied, nothing of theirs is replaced, and the demo runs on it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from solutions.demo import stack
from testcases.course import students
from testcases.harness.catalog import ROOT, SOLUTIONS, lesson_names, read_lesson, regions
from testcases.harness.execution.errors import Missing
from testcases.harness.execution.executor import ModuleSet
from testcases.harness.oracle.mutations import emptied, stub

FILES = sorted(path.relative_to(SOLUTIONS) for path in SOLUTIONS.glob("lesson*/*.py") if path.name != "__init__.py")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course folder with everything solved."""
    return students.course_copy(tmp_path)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a course without the exercises that take no part, and beside it, as `called`, what it called."""
    folder = tmp_path_factory.mktemp("own")
    course = students.course_copy(folder)
    for number in stack.LESSONS:
        for path in SOLUTIONS.glob(f"lesson{number:02d}_*/*.py"):
            file = course / "tutorial" / path.relative_to(SOLUTIONS)
            file.write_text(emptied(path, stack.LEFT_OUT.get(number, ())), "utf-8")
            note_calls(file)
    done = demo(course, folder / "out", str(folder / "called"))
    assert done.returncode == 0, done.stderr
    return folder / "out"


def note_calls(file: Path) -> None:
    """Let each exercise of a file write its name into the builtin CALLED."""
    lines = file.read_text("utf-8").splitlines()
    for one in regions(file):
        indent, name = lines[one.first].partition("#")[0], f"{file.parent.name}:{one.exercise}"
        lines[one.first] = f'{indent}__import__("builtins").__dict__.setdefault("CALLED", set()).add("{name}")'
    file.write_text("\n".join(lines) + "\n", "utf-8")


def demo(course: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", students.POCKET_DEMO, "tutorial", str(out), *more]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, timeout=students.HANGS)


@pytest.mark.slow
def test_the_demo_on_a_solved_stack_has_the_references_summary(own: Path, pocket_run: tuple[Path, Any]) -> None:
    assert students.summary(own) == students.summary(pocket_run[0])


@pytest.mark.slow
def test_the_demo_waits_for_just_the_exercises_that_it_calls(own: Path) -> None:
    """Load-time waiting is decided from a list; here the list is held against what a run calls."""
    called = (own.parent / "called").read_text().splitlines()
    for number in stack.LESSONS:
        lesson = read_lesson(str(number))
        left_out = {name for name in lesson.exercises if f"{lesson.name}:{name}" not in called}
        left_out -= {"PPOTrainer.load_checkpoint"}  # with RESUME=1
        assert left_out == set(stack.LEFT_OUT.get(number, ())), lesson.name


def test_the_text_lists_the_exercises_that_take_no_part() -> None:
    text = (ROOT / "tutorial/lesson12_capstone/README.md").read_text("utf-8")
    listed = re.findall(r"`([\w.]+)`", text.partition("can stay stubs:\n\n")[2].partition("\n\n")[0])
    names = {name for exercises in stack.LEFT_OUT.values() for name in exercises}
    assert set(listed) - {"compute_gae", "compute_ppo_loss"} == names
    for lesson in map(read_lesson, lesson_names()[:11]):
        text = (ROOT / "tutorial" / lesson.name / "README.md").read_text("utf-8")
        about = " ".join(text.partition("## About this lesson")[2].split())
        *names, last = [f"`{name}`" for name in stack.LEFT_OUT.get(lesson.number, ())] or [""]
        unused = f"{', '.join(names)} and {last}" if names else last
        unused = unused if lesson.number in stack.LESSONS else "this lesson"
        link = "[The run of lesson 12](../lesson12_capstone/README.md#about-this-lesson)"
        said = f"{link} doesn't use {unused}." if unused else ""
        assert said in about and about.count(link) == bool(unused), lesson.name


def test_plain_python_runs_on_the_students_own_files(course: Path) -> None:
    code = (
        "from tutorial.lesson04_gae import compute_gae; from tutorial.lesson09_ppo_trainer import PPOConfig; "
        "from tutorial.demo.bandit import gradient_moments; print(compute_gae.__code__.co_filename); "
        "print(gradient_moments.__globals__['reinforce_loss'].__code__.co_filename)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=course, capture_output=True, text=True, check=True)
    wanted = ("lesson04_gae/gae.py", "lesson03_policy_gradient/policy_gradient.py")
    assert done.stdout.splitlines() == [str(course / "tutorial" / file) for file in wanted]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES[::8], ids=str)
def test_a_missing_file_is_missing_and_never_the_references(file: Path, course: Path) -> None:
    folder = course / "tutorial"
    (folder / file).unlink()
    lesson = read_lesson(file.parts[0])
    modules = ModuleSet(folder, [lesson.name])
    for name in [name for name, module in lesson.names.items() if module == file.stem]:
        with pytest.raises(Missing, match=f"there is no file tutorial/{file}"):
            modules.public_name(lesson.name, name)
    if lesson.number in stack.LESSONS:
        with pytest.raises(stack.Unfinished) as caught:
            stack.check_finished(folder)
        assert str(caught.value) == (
            f"the capstone is waiting for lesson {lesson.number}: there is no file tutorial/{file.as_posix()}; "
            f"make reset LESSON={lesson.number} brings it back"
        )


@pytest.mark.slow
def test_an_unwritten_exercise_is_named_at_once(course: Path, tmp_path: Path) -> None:
    file = "lesson06_kl_rewards/kl_rewards.py"
    (course / "tutorial" / file).write_text(stub(SOLUTIONS / file), "utf-8")
    done = demo(course, tmp_path / "out")
    assert done.returncode == 1 and done.stdout == "" and not (tmp_path / "out").exists()
    assert done.stderr == (
        f"the capstone is waiting for lesson 6: `estimate_kl` in tutorial/{file} is not written yet; "
        "run the reference with make demo\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "file, old, new, says",
    [
        ("lesson01_masked_sequences/masked.py", "def gather_log_probs(", "def gather_log_probs(((", "SyntaxError"),
        ("lesson02_reward_model/reward_model.py", "chosen - rejected", "rejected - chosen", "pairwise_loss"),
    ],
    ids=["syntax", "wrong"],
)
def test_the_first_lesson_that_is_wrong_is_named_before_the_run(file, old, new, says, course: Path, tmp_path: Path):
    path = course / "tutorial" / file
    assert old in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    done = demo(course, tmp_path / "out")
    number = int(file[6:8])
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert done.stderr == (
        f"the capstone is waiting for lesson {number}, which does not agree with the reference: pytest "
        f"testcases/{path.parent.name} says where; run the reference with make demo\n"
    )
    assert says in done.stdout, done.stdout


RUNS = json.loads(stack.RECORDED.read_text("utf-8"))["runs"]


def test_the_verdict_knows_the_references_numbers_near_ones_and_far_ones() -> None:
    assert [run["seed"] for run in RUNS] == list(range(10))
    run = {"preset": "tiny", **RUNS[3]}
    assert "to the last digit" in stack.verdict(run)
    near = {**run, "ppo": {**run["ppo"], "proxy": run["ppo"]["proxy"] + 1e-6}}
    assert "landed within the range" in stack.verdict(near)
    far = stack.verdict({**run, "ppo": {**run["ppo"], "gold": 1.0}})
    assert "landed outside the range" in far and "ppo gold 1.00 (1.8" in far
    assert "recorded only for the preset tiny" in stack.verdict({**run, "preset": "small"})


def test_the_page_of_measured_numbers_shows_the_recorded_seeds() -> None:
    text = (ROOT / "book/pages/benchmarks.md").read_text("utf-8")
    for run in RUNS:
        gold = f"{run['sft']['gold']:.2f} | {run['ppo']['gold']:.2f}"
        assert f"| {run['seed']} | {run['reward_model']['accuracy']:.3f} | {gold} |" in text
