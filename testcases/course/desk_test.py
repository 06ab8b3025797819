"""A student at the desk: the debugger, prints, a failure again, and make watch, through a terminal."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
import torch
from torch import inf, nan  # noqa: F401 (what a snippet may name)

from testcases.course.students import FILE, HANGS, LESSON, own_course, replace_body, solved_folder
from testcases.harness.catalog import ROOT
from testcases.harness.execution import Outcome, capture, identical
from testcases.harness.oracle import examples
from testcases.harness.report import SCREEN, as_python, printed_lines, show_argument, snippet
from testcases.harness.student import replay
from testcases.harness.student.watching import debugger

# One import of torch serves several runs of pytest, each in a fork with the terminal.
RUNS = """
import json, os, sys, torch, pytest
import testcases.harness.execution.executor, testcases.harness.suite.checks
torch.set_num_threads(1)
for folder, arguments in json.loads(sys.argv[1]):
    if (child := os.fork()) == 0:
        os.chdir(folder)
        os._exit(pytest.main(["-p", "no:randomly", *arguments]))
    print("END", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
PROMPT = r"\(Pdb\) "
WRONG = "print('seen', gamma)\nbreakpoint()\nreturn rewards + gamma * values[..., 1:] - values[..., :-1]"
RIGHT = "right = rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]\n"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_course(tmp_path_factory.mktemp("course"))


@pytest.fixture
def file(course: Path) -> Iterator[Path]:
    """The solved file of lesson 4; whatever a test does to it is undone."""
    path = course / "tutorial" / LESSON / FILE
    solved = path.read_text("utf-8")
    yield path
    path.write_text(solved, "utf-8")


def session(course: Path, *arguments: str) -> pexpect.spawn:
    terminal = pexpect.spawn(sys.executable, [*arguments], cwd=course, encoding="utf-8", timeout=HANGS)
    terminal.delaybeforesend = None
    return terminal


def answers(terminal: pexpect.spawn, *typed: str) -> Iterator[str]:
    """What the debugger says to each line."""
    for line in typed:
        terminal.sendline(line)
        terminal.expect(PROMPT)
        yield terminal.before


def test_the_debugger_stops_once_in_the_students_code_at_the_reported_call(course: Path, file: Path, tmp_path: Path):
    replace_body(course / "tutorial", WRONG)
    by_hand = [f"testcases/{LESSON}/basic_test.py", "-k", "td_errors_by_hand"]
    inside = str(course / "tutorial" / LESSON)
    passes = solved_folder(tmp_path)
    replace_body(passes, RIGHT + "breakpoint()\nreturn right")
    subjects = (by_hand, ["--pdb", *by_hand], [*by_hand, f"--subject={passes}"])
    runs = [(inside, ["-s", "-k", "td_errors_by_hand"]), *((str(course), run) for run in subjects)]
    terminal = session(course, "-c", RUNS, json.dumps(runs))

    terminal.expect(PROMPT)
    assert terminal.before.count("seen") > 7, "with -s every test's call is heard"
    terminal.sendline("c")
    terminal.expect("END 1")

    terminal.expect(PROMPT)
    report = terminal.before
    assert "dones=[1., 0.]" in report and "dones_ignored" in report and "seen 0.5" in report and debugger.KEYS in report
    gamma, oldest = answers(terminal, "p dones", "u")
    assert "tensor([1., 0.]" in gamma and "Oldest frame" in oldest
    terminal.sendline("q")
    terminal.expect("END 1")
    rest = terminal.before
    assert "BdbQuit" not in rest and "(Pdb)" not in rest and "printed\r\n    seen 0.5" in rest
    assert "Again: python -m testcases.harness.student.replay 1" in rest

    terminal.expect(PROMPT)
    assert "_check_episode(rewards, values, dones, gamma)" in terminal.before
    terminal.sendline("q")
    terminal.expect("you left the debugger.*END 2")

    terminal.expect(PROMPT)
    assert "breakpoint() in test_td_errors_by_hand[next-value-is-discounted], which passed" in terminal.before
    terminal.sendline("c")
    terminal.expect("END 0")
    terminal.wait()


def test_watch_runs_a_lesson_at_each_save(course: Path, file: Path):
    """The command of `make watch LESSON=4`."""
    command = f"{sys.executable} -m pytest testcases/{LESSON}"
    terminal = session(course, "-m", "watchfiles", "--filter", "python", command, "tutorial")
    terminal.expect(r"\d points  done")
    solved = file.read_text("utf-8")
    for text, said in ((solved + "\ndef broken(:\n", "SyntaxError"), (solved, r"\d points  done")):
        file.write_text(text, "utf-8")
        terminal.expect(said)
    terminal.sendintr()
    terminal.expect(pexpect.EOF)
    terminal.close()


@pytest.mark.parametrize("lesson", ["lesson01_masked_sequences", LESSON])
def test_a_snippet_has_the_very_arguments(lesson: str):
    for exercise in ("masked_mean", "response_mask", "td_errors", "compute_response_gae"):
        for asked in examples(lesson, exercise)[:3]:
            assert identical(eval(as_python(asked.arguments)), asked.arguments)
            compile(snippet(asked), "snippet", "exec")


def test_replay_finds_the_failures_of_the_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replay, "FAILURES", tmp_path / "failures.json")
    with pytest.raises(LookupError, match="run pytest first"):
        replay.arguments_for(1)
    replay.keep(["a_test.py::test_a", "b_test.py::test_b"], seed=7)
    assert replay.arguments_for(2) == ["b_test.py::test_b", "-s", "--snippet", "--suite-seed=7"]
    with pytest.raises(LookupError, match="showed 2 failures: there is no 3"):
        replay.arguments_for(3)


def test_floats_keep_their_point_and_a_bar_is_no_print():
    assert show_argument(torch.tensor([0.0, 1.5, -2.0, 1e-9, nan])) == "[0., 1.5, -2., 1e-09, nan] (float32)"
    assert show_argument(torch.tensor([0, 1])) == "[0, 1]" and show_argument(1.0) == "1."
    printed = capture.Printed()
    for text in ("one\n", "\rppo:  33%|###   | 1/3", "two\n"):
        printed.write(text)
    assert printed.getvalue() == "one\ntwo\n"
    lines = printed_lines(Outcome(printed="line\n" * 90, printed_length=450))
    assert len(lines) == SCREEN + 2 and lines[-1] == "    ... cut: 450 characters in all; pytest -s shows them"


@pytest.mark.parametrize("damage, says", [("", "is missing"), ("def (", "cannot be loaded (SyntaxError: ")])
def test_a_damaged_file_of_the_course_is_one_sentence(course: Path, damage: str, says: str):
    given = course / "ppo_by_hand" / "core" / "shapes.py"
    whole = given.read_text("utf-8")
    given.write_text(whole + damage, "utf-8") if damage else given.unlink()
    command = [sys.executable, "-m", "pytest", f"testcases/{LESSON}"]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True, timeout=HANGS, check=False)
    given.write_text(whole, "utf-8")
    (said,) = done.stderr.strip().splitlines()
    assert said.startswith("ERROR: ppo_by_hand/core/shapes.py, a file of the course, ") and done.returncode == 4
    assert says in said and said.endswith("`git checkout ppo_by_hand/core/shapes.py` brings it back")


def test_the_dev_container_file_has_known_keys_and_real_commands():
    found = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert set(found) <= {"name", "image", "containerEnv", "postCreateCommand", "customizations"}
    assert set(found["customizations"]["vscode"]) == {"extensions", "settings"}
    target = found["postCreateCommand"].removeprefix("make ")
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    (suite,) = found["customizations"]["vscode"]["settings"]["python.testing.pytestArgs"]
    assert (ROOT / suite).is_dir()
