"""A file that never finishes loading costs its time once, and no other file anything."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from testcases.grader.sandbox import worker_client
from testcases.grader.sandbox.limits import Limits
from testcases.harness.catalog.lessons import SOLUTIONS
from testcases.harness.execution.executor import InProcess, Terms
from testcases.harness.execution.messages import Call, Outcome, StudentError
from testcases.harness.execution.modules import ModuleSet
from testcases.harness.suite.asserts import named

LESSON = "lesson10_bug_hunt"
TIMEOUT = StudentError("timeout", "TookTooLong", "stopped")


class Worker:
    """Of a student whose my_tests.py never ends, as its zygote's worker says, or as the clock does."""

    says = False
    started: list[str] = []

    def __init__(self, sandbox: Any, lesson: str, exercise: str, files: Any) -> None:
        self.serves, self.loaded, self.waits = (lesson, exercise), set[str](), lambda: 0.0
        self.started.append(exercise)

    def load(self, file: str, call: Call) -> bool:
        if file == "my_tests.py" and not self.says:
            raise worker_client._Ended(TIMEOUT)
        self.loaded.add(file)
        return file != "my_tests.py"

    def ask(self, call: Call) -> Outcome:
        return Outcome(error=TIMEOUT if call.exercise.startswith("test_") else None)

    def end(self) -> None:
        pass


@pytest.mark.parametrize("says", [True, False])
def test_a_file_that_never_loads_is_asked_for_once(monkeypatch: pytest.MonkeyPatch, says: bool):
    monkeypatch.setattr(worker_client, "_Worker", Worker)
    monkeypatch.setattr(Worker, "says", says)
    monkeypatch.setattr(Worker, "started", [])
    box: Any = SimpleNamespace(limits=Limits(), failures=0, spent=0.0)
    subject = worker_client.InSandbox(box, {})
    names = ["test_compute_gae", "test_compute_rewards", "train_bandit", "test_response_mask", "diagnose"]
    errors = [subject.run(Call(LESSON, name, {})).error for name in names]
    assert Worker.started == ["test_compute_gae", "train_bandit", "diagnose"]
    assert errors == [TIMEOUT, TIMEOUT, None, TIMEOUT, None]


def test_after_two_ends_an_exercise_is_asked_nothing_more(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def ask(self: Worker, call: Call) -> Outcome:
        asked.append(call.exercise)
        raise worker_client._Ended(TIMEOUT)

    monkeypatch.setattr(worker_client, "_Worker", Worker)
    monkeypatch.setattr(Worker, "ask", ask)
    box: Any = SimpleNamespace(limits=Limits(), failures=0, spent=0.0)
    subject = worker_client.InSandbox(box, {})
    errors = [subject.run(Call(LESSON, name, {})).error for name in ["train_bandit"] * 4 + ["diagnose"]]
    assert asked == ["train_bandit"] * 2 + ["diagnose"]
    assert [error.message.startswith("not asked, since 2 of its calls") for error in errors if error] == [0, 0, 1, 1, 0]


@named(
    "line, loads",
    {
        "endless": ("while True: pass", False),
        "raises": ("1 / 0", True),
        "exits": ("raise SystemExit", True),
        "stops-for-the-debugger": ("breakpoint()", True),
        "settings": ("torch.set_default_dtype(torch.float64)\ntorch.manual_seed(1)", True),
    },
)
def test_loading_a_file_changes_nothing(line: str, loads: bool):
    path = "lesson04_gae/gae.py"
    source = {path: f"{(SOLUTIONS / path).read_text('utf-8')}\n{line}\n"}
    executor = InProcess(lambda lesson: ModuleSet(SOLUTIONS, [lesson], source), Terms(load_seconds=0.1))
    before = torch.get_default_dtype(), torch.initial_seed(), random.getstate()
    assert executor.loads("lesson04_gae", "td_errors", 0.1) == loads
    assert (torch.get_default_dtype(), torch.initial_seed(), random.getstate()) == before
