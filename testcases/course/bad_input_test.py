"""Broken and strange student files: one clear failure for the exercise that is broken, all others as before."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from testcases.course.students import FILE, LESSON, independent, replace_body, run, solved_folder
from testcases.course.unseen import failures
from testcases.harness.catalog import ROOT, read_lesson
from testcases.harness.execution import executor
from testcases.harness.execution.calling import Terms
from testcases.harness.execution.messages import Call, Outcome
from testcases.harness.report.failures import MAX_LINES, CheckFailed
from testcases.harness.suite.asserts import example, named
from testcases.harness.suite.session import Engine


def edited(tmp_path: Path, change: Callable[[str], str]) -> Path:
    """The solutions as a student's folder, with this change of lesson 4's file."""
    folder = solved_folder(tmp_path)
    path = folder / LESSON / FILE
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    return folder


def answering(tmp_path: Path, body: str) -> Path:
    """The same with this body of `td_errors`, on which no other exercise stands."""
    folder = solved_folder(tmp_path)
    independent(folder)
    replace_body(folder, body)
    return folder


def first_failures(
    subject: Path | executor.Executor, of: Iterable[str] = read_lesson(LESSON).exercises, **options: Any
) -> dict[str, CheckFailed]:
    """By exercise of lesson 4, or of these alone, the first test that fails."""
    subject = executor.InProcess(subject) if isinstance(subject, Path) else subject
    found = {name: first for name in of if (first := next(failures(subject, name, **options), None))}
    assert all(len(str(first).splitlines()) <= MAX_LINES for first in found.values())
    return found


RIGHT = "right = rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]\n"
BODIES = {
    "list": (RIGHT + "return right.tolist()", "returned a list", []),
    "none": (RIGHT + "return None", "returned None", ["is a return missing?"]),
    "raises": ("return rewards.no_such_method()", "raised AttributeError", ["gae.py:", "no_such_method"]),
    "sys-exit": ("import sys\nsys.exit()", "raised SystemExit", ["gae.py:"]),
    "changes-its-input": ("rewards += 1\n" + RIGHT + "return right", "changed its input rewards in place", ["caller"]),
    "float32": (RIGHT + "return right.float()", "wrong dtype", ["torch.float64", "torch.float32"]),
    "float32-inside": (RIGHT + "return right.float().double() + 1e-9", "wrong value, by rounding", ["20 of 21"]),
    "another-shape": (RIGHT + "return right[..., None]", "wrong shape", []),
    "nan": (RIGHT + "return right / 0 * 0", "NaN in the answer", []),
    "grad-left-off": ("torch.set_grad_enabled(False)\n" + RIGHT + "return right", "left global settings changed", []),
    "print-flood": ("print('x' * 10_000_000)\nreturn rewards", "wrong value", []),
    "terminal-control": ("print('\\x1b[2J' * 3)\nreturn rewards", "wrong value", []),
    "too-much": ("return torch.zeros(20_000_000)", "returned too much", []),
    "recursion": ("return td_errors(rewards, values, dones, gamma)", "raised RecursionError", []),
    "imports-nothing": ("from ..lesson09_nothing import x", "raised ModuleNotFoundError", ["lesson09_nothing"]),
}


@pytest.mark.slow
@named("body, kind, mentions", BODIES)
def test_a_strange_answer_is_one_clear_failure(tmp_path: Path, body: str, kind: str, mentions: list[str]):
    found = first_failures(answering(tmp_path, body), ("td_errors", "gae_ends"))  # the second stands behind it
    assert set(found) == {"td_errors"}
    first = found["td_errors"]
    assert first.kind == kind, str(first)
    assert all(text in str(first) for text in mentions), str(first)
    assert "\x1b" not in str(first)
    assert "testcases/harness" not in str(first) and "Traceback" not in str(first)
    assert "make hint LESSON=4" in str(first)


NO_FILE = "there is no file tutorial/lesson04_gae/gae.py"
FILES = {
    "bytes": (lambda file: file.write_bytes(b"\xff\xfe\x00\x00\x9c"), "gae.py does not load", "save it as UTF-8"),
    "raises": (lambda file: file.write_text("import no_such_package\n"), "gae.py does not load", "import no_such_p"),
    "missing": (lambda file: file.rename(file.with_name("Gae (1).py")), "missing", NO_FILE),
    "missing-folder": (lambda file: shutil.rmtree(file.parent), "missing", NO_FILE),
}


@pytest.mark.slow
@named("spoil, kind, sentence", FILES)
def test_a_file_that_does_not_load(tmp_path: Path, spoil: Callable[[Path], object], kind: str, sentence: str):
    folder = solved_folder(tmp_path)
    spoil(folder / LESSON / FILE)
    first = first_failures(folder, ["compute_gae"])["compute_gae"]
    assert first.kind == kind and sentence in str(first)


def test_a_file_that_never_loads_is_waited_for_once(tmp_path: Path):
    """Not once more for each exercise, to see whether another one pays for it."""
    folder, loaded = solved_folder(tmp_path), tmp_path / "loaded"
    with (folder / LESSON / FILE).open("a", encoding="utf-8") as file:
        file.write(f"\nwith open({str(loaded)!r}, 'a') as file:\n    file.write('.')\nwhile True:\n    pass\n")
    terms = Terms(load_seconds=0.2)
    found = first_failures(executor.InProcess(folder, terms=terms), seconds=0.2, pays_once=True)
    assert {first.kind for first in found.values()} == {"gae.py does not load"} and len(found) > 2
    assert "does a loop never end" in str(found["td_errors"]) and "called" not in str(found["td_errors"])
    assert loaded.read_text("utf-8") == "."


def test_a_renamed_function(tmp_path: Path):
    found = first_failures(edited(tmp_path, lambda text: text.replace("def compute_gae(", "def compute_gea(")))
    assert set(found) == {"compute_gae", "compute_response_gae"}
    assert "your file has no `compute_gae`, but it has `compute_gea`" in str(found["compute_response_gae"])
    assert "gae.py defines no compute_gae" in str(found["compute_gae"])


@pytest.mark.slow
def test_a_wrong_signature(tmp_path: Path):
    def without_lam(text: str) -> str:
        text = text.replace("gamma: float = 0.99, lam: float = 0.95", "gamma: float = 0.99", 1)
        return text.replace("-> AdvantagesAndReturns:\n", "-> AdvantagesAndReturns:\n    lam = 0.95\n", 1)

    folder = edited(tmp_path, without_lam)
    assert set(first_failures(folder)) == {"compute_gae", "compute_response_gae"}
    found = failures(executor.InProcess(folder), "compute_gae")
    signatures = [verdict for verdict in found if verdict.kind == "wrong signature"]
    assert "expected compute_gae(rewards, values, dones, gamma=0.99, lam=0.95)" in str(signatures[0])


class Counted:
    """An executor that notes what it is asked."""

    def __init__(self, inner: executor.Executor) -> None:
        self.inner, self.asked = inner, []

    def run(self, call: Call) -> Outcome:
        self.asked.append(call)
        return self.inner.run(call)

    def text(self, lesson: str, file: str) -> str:
        return self.inner.text(lesson, file)


def test_an_endless_loop(tmp_path: Path):
    loop = "while True:\n    try:\n        gamma += 0\n    except Exception:\n        pass"
    subject = Counted(executor.InProcess(answering(tmp_path, loop)))
    found = first_failures(subject, seconds=0.2)
    mine = [call for call in subject.asked if call.exercise == "td_errors"]
    assert len(mine) < 50, "the loop is waited for once, not once a test"
    assert set(found) == {"td_errors"}
    assert found["td_errors"].kind == "took too long" and "gae.py:" in str(found["td_errors"])


def test_after_two_calls_that_do_not_end_an_exercise_is_asked_nothing_more(tmp_path: Path):
    subject = Counted(executor.InProcess(answering(tmp_path, "while gamma == 0.125:\n    pass\nreturn rewards")))
    engine = Engine(subject, seconds=0.1)
    calls = [example(Call(LESSON, "td_errors"), [1.0], [2.0, 4.0], [0], gamma=gamma) for gamma in (0.125, 0.5) * 2]
    other = example(Call(LESSON, "compute_gae"), [1.0], [2.0, 4.0], [0])
    with engine.active():
        errors = [engine.ask(call).error for call in (*calls, other)]
    assert [error and error.kind for error in errors] == ["timeout", None, "timeout", "timeout", None]
    gammas = [one.arguments["gamma"] for one in subject.asked if one.exercise == "td_errors"]
    assert gammas[-3:] == [0.125, 0.5, 0.125]


@pytest.mark.slow
def test_an_endless_loop_that_cannot_be_stopped_ends_pytest_with_a_sentence(tmp_path: Path):
    folder = solved_folder(tmp_path)
    replace_body(
        folder,
        "while True:\n    try:\n        while True:\n            gamma += 0\n    except BaseException:\n        pass",
    )
    done = run(ROOT, "pytest", f"testcases/{LESSON}", f"--subject={folder}", "-k", "td_errors")
    assert done.returncode == 1
    assert f"{LESSON} · td_errors never ends" in done.stderr and "except BaseException" in done.stderr, done.stderr
