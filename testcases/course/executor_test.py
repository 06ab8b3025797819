"""A student's own pytest, from outside: imports, the debugger, and whatever a file may do to it."""

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
import torch
from torch import nan

from testcases.course.students import (
    FILE,
    HANGS,
    LESSON,
    RUNS,
    own_course,
    own_runs,
    replace_body,
    run,
    solved_folder,
    with_body,
)
from testcases.harness.catalog import SOLUTIONS
from testcases.harness.report.failures import show_argument
from testcases.harness.student.summary import SCREEN, shortened

SUITE = f"testcases/{LESSON}"
BY_HAND = (f"{SUITE}/basic_test.py::test_td_errors_by_hand[next-value-is-discounted]",)
PROMPT = r"\(Pdb\) "
RIGHT = "right = rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]\n"
CRASHES = "import ctypes\nctypes.string_at(0)"
OTHERS = "testcases/lesson03_policy_gradient", "testcases/lesson05_ppo_loss"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return solved_folder(own_course(tmp_path_factory.mktemp("course"))).parent


@pytest.fixture
def file(course: Path) -> Iterator[Path]:
    """The solved file of lesson 4; whatever a test does to it is undone."""
    path = course / "tutorial" / LESSON / FILE
    solved = path.read_text("utf-8")
    yield path
    path.write_text(solved, "utf-8")


def session(course: Path, *arguments: str) -> pexpect.spawn:
    def hears_ctrl_c() -> None:
        """Also where whoever started the tests does not, such as a shell that started them in the background."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    options = {"encoding": "utf-8", "timeout": HANGS, "preexec_fn": hears_ctrl_c}
    terminal = pexpect.spawn(sys.executable, [*arguments], cwd=course, **options)
    terminal.delaybeforesend = None
    return terminal


def answers(terminal: pexpect.spawn, *typed: str) -> Iterator[str]:
    """What the debugger says to each line."""
    for line in typed:
        terminal.sendline(line)
        terminal.expect(PROMPT)
        yield terminal.before


def test_the_debugger_is_pytests_own_and_stops_in_the_tests_call(course: Path, file: Path):
    replace_body(course / "tutorial", f"print('seen', gamma)\nbreakpoint()\n{RIGHT}return right")
    line = file.read_text("utf-8").splitlines().index("    return right") + 1
    stops, by_line = BY_HAND, ("--trace", *BY_HAND)
    terminal = session(course, "-c", RUNS, json.dumps([(stops, {}), (by_line, {})]))

    terminal.expect(PROMPT)
    assert f"{FILE}({line - 1})td_errors()" in terminal.before
    gamma, oldest = answers(terminal, "p gamma", "u")
    assert "0.5" in gamma and "calling.py" in oldest
    terminal.sendline("c")
    terminal.expect("END 0")

    # Where no breakpoint() is written: one that an editor, or you, set by file and line.
    file.write_text(file.read_text("utf-8").replace("    breakpoint()\n", ""), "utf-8")
    terminal.expect(PROMPT)
    (said,) = answers(terminal, f"b {file}:{line - 1}")
    assert "Breakpoint 1" in said
    stopped, value = answers(terminal, "c", "p right")
    assert f"{FILE}({line - 1})td_errors()" in stopped and "return right" in stopped and "tensor([" in value
    terminal.sendline("q")
    terminal.expect("END 2")
    assert "Quitting debugger" in terminal.before
    terminal.wait()


def test_pdb_opens_in_the_line_that_raised(course: Path, file: Path):
    replace_body(course / "tutorial", "half = gamma / 2\nreturn rewards.no_such_method()")
    terminal = session(course, "-c", RUNS, json.dumps([(("--pdb", *BY_HAND), {})]))
    terminal.expect(PROMPT)
    assert "return rewards.no_such_method()" in terminal.before and "raised AttributeError" in terminal.before
    (half,) = answers(terminal, "p half")
    assert "0.25" in half
    terminal.sendline("q")
    terminal.expect("END 2")
    terminal.wait()


@pytest.mark.slow
def test_lessons_in_one_run_do_not_meet(course: Path, file: Path):
    """In any order and in several processes: a mistake of lesson 4 is lesson 4's alone."""
    replace_body(course / "tutorial", "return rewards.no_such_method()")
    some = "-k", "td_errors or rewards_to_go or compute_value_loss"
    orders = (SUITE, *OTHERS, *some), (*OTHERS[::-1], SUITE, *some), (SUITE, *OTHERS, *some, "-p", "xdist", "-n", "2")
    counts = []
    for status, out in own_runs(course, *orders):
        failed = re.findall(r"^(lesson\d\d)\w* · \w+ · ", out, re.MULTILINE)
        counts.append(re.search(r"(\d+ failed, \d+ passed)", out.splitlines()[-1]))
        assert {*failed} == {"lesson04"} and status == 1, out
    first, *others = [count and count[1] for count in counts]
    assert first and others == [first] * 2


@pytest.mark.slow
def test_imports_of_every_kind_find_the_same_lessons(course: Path, file: Path):
    """Those of other lessons are the solutions', even where the student has broken them."""
    broken = course / "tutorial/lesson01_masked_sequences/masked.py"
    whole = broken.read_text("utf-8")
    broken.write_text("def (:\n", "utf-8")
    inside = (
        "from tutorial.lesson01_masked_sequences import masked_mean as inner\n"
        f"import tutorial.{LESSON}.gae\n"
        f"from ..{LESSON}.gae import AdvantagesAndReturns as mine\n"
        f"assert inner is masked_mean and mine is AdvantagesAndReturns is tutorial.{LESSON}.gae.AdvantagesAndReturns\n"
        f"from tutorial import {LESSON} as package\n"
        "assert package.gae.AdvantagesAndReturns is mine and callable(package.compute_gae)\n"
    )
    replace_body(course / "tutorial", f"{inside}{RIGHT}return right")
    above = "import torch\nfrom tutorial.lesson01_masked_sequences import masked_mean\n"
    file.write_text(file.read_text("utf-8").replace("import torch\n", above, 1), "utf-8")
    ((status, out),) = own_runs(course, (SUITE, "-k", "td_errors"))
    broken.write_text(whole, "utf-8")
    assert status == 0 and "passed" in out, out


STRANGE = {
    "syntax-error": ("def broken(:", "gae.py does not load", "    def broken(:\nSyntaxError"),
    "exit-at-import": ("import sys; sys.exit(0)", "gae.py does not load", "SystemExit"),
    "another-lessons-file": ("", "missing", "defines no td_errors"),
    "os-exit": ("    import os; os._exit(0)", "raised SystemExit", "os._exit(0) would end the whole process"),
}
"""What is added to the file, or, where it is indented, stands in the body of td_errors."""


@pytest.fixture(scope="module")
def strange(course: Path) -> dict[str, tuple[int, str]]:
    """Exit status and output of each; the file is the solved one again afterwards."""
    path = f"tutorial/{LESSON}/{FILE}"
    solved = (course / path).read_text("utf-8")
    other = (SOLUTIONS / "lesson05_ppo_loss/ppo_loss.py").read_text("utf-8")
    texts = []
    for text, *_ in STRANGE.values():
        strange = with_body(solved, text.strip()) if text.startswith(" ") else f"{solved}\n{text}\n"
        texts.append({path: strange if text else other})
    asked = [(SUITE, OTHERS[0], "-k", "td_errors or rewards_to_go")] * len(texts)
    found = own_runs(course, *asked, texts=texts)
    (course / path).write_text(solved, "utf-8")
    return dict(zip(STRANGE, found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_file_or_answer_is_one_sentence_and_a_status(strange: dict[str, tuple[int, str]], name: str):
    (status, out), (_, kind, sentence) = strange[name], STRANGE[name]
    assert status == 1 and f"{LESSON} · td_errors · {kind}\n" in out and sentence in out, out
    assert "harness/" not in out and "Traceback" not in out and len(out.splitlines()) < 120
    assert re.search(r"[1-9]\d* passed", out.splitlines()[-1]), "those of another lesson"


@pytest.mark.slow
def test_what_ends_the_process_is_named_by_the_next_start(course: Path, file: Path):
    replace_body(course / "tutorial", CRASHES)
    line = file.read_text("utf-8").splitlines().index("    ctypes.string_at(0)") + 1
    other = OTHERS[0], "-k", "rewards_to_go"
    (crashed, _), (status, out), (_, again) = own_runs(course, (SUITE, "-k", "td_errors"), other, other)
    said = (
        f"{LESSON} · td_errors: your last run ended here without a message, at tutorial/{LESSON}/{FILE}:{line}. Did a"
    )
    assert crashed < 0 and status == 0 and said in out and "without a message" not in again, out


def test_a_file_that_hides_a_library_is_named(course: Path):
    (course / "torch.py").write_text("mine = 1\n", "utf-8")
    done = run(course, "pytest", SUITE, "-k", "td_errors")
    (course / "torch.py").unlink()
    assert done.returncode == 1 and done.stderr == (
        "torch.py has the name of the library torch, so whatever imports torch gets your file: rename it.\n"
    )


@pytest.mark.slow
def test_a_damaged_file_of_the_course_is_one_sentence(course: Path):
    """Of the suite beside the one that is asked for."""
    damaged = course / SUITE / "advanced_test.py"
    whole = damaged.read_text("utf-8")
    ((status, out),) = own_runs(course, (f"{SUITE}/basic_test.py",), texts=[{str(damaged): f"{whole}def ("}])
    damaged.write_text(whole, "utf-8")
    (said,) = [line for line in out.splitlines() if "ERROR" in line]
    assert "Traceback" not in out and ", a part of the course, " in said and status == 4
    assert "cannot be loaded (SyntaxError: " in said and said.endswith("`git checkout FILE` brings it back")


def test_floats_keep_their_point_and_a_long_print_is_cut():
    assert show_argument(torch.tensor([0.0, 1.5, -2.0, 1e-9, nan])) == "[0., 1.5, -2., 1e-09, nan] (float32)"
    assert show_argument(torch.tensor([0, 1])) == "[0, 1]" and show_argument(1.0) == "1."
    lines = shortened("line\n" * 90).splitlines()
    assert len(lines) == SCREEN + 1 and lines[-1] == "    ... cut: 450 characters in all; pytest -s shows them"
