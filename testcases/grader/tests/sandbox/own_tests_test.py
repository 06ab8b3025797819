"""Lesson 10's tests of a student's cannot reach what they test. No rule book has read these. And what the mark says of
such a test comes to the result as values, too."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import dedent, indent
from types import CodeType

import pytest

from testcases.grader.marking import grade
from testcases.grader.sandbox.sandbox import Limits, Sandbox
from testcases.grader.sandbox.worker_client import InSandbox
from testcases.harness.execution.executor import solutions_changed
from testcases.harness.execution.messages import Call, Outcome
from testcases.harness.oracle.mutations import wrong_answers
from testcases.harness.oracle.reference import with_change
from testcases.harness.report.failures import CheckFailed
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine
from testcases.lesson10_bug_hunt import bank
from testcases.lesson10_bug_hunt.grading import behind

LESSON, FUNCTION = "lesson10_bug_hunt", "compute_gae"
RIGHT, WRONG = bank.right(FUNCTION), bank.wrong(FUNCTION)
CHOSEN = (WRONG[0], RIGHT[0], WRONG[9], RIGHT[1], WRONG[20])
TRUTH = [one.question is not None for one in CHOSEN]
CODES = [
    function.co_code
    for one in RIGHT
    for function in compile(one.source, "", "exec").co_consts
    if isinstance(function, CodeType) and function.co_name == FUNCTION
]
HALVES = {code[-60:-30].hex(): code[-30:].hex() for code in CODES}
"""What the stub has not; in halves, so that whoever looks for one does not find what it looks with."""
HEAD = f"""
import atexit, builtins, contextlib, gc, importlib, mmap, os, sys, threading, torch
from ..lesson04_gae import compute_gae

HALVES = {{bytes.fromhex(first): bytes.fromhex(second) for first, second in {HALVES}.items()}}
X = torch.ones(2, 3), torch.ones(2, 4), torch.zeros(2, 3)

def holds(data):
    for first, second in HALVES.items():
        place = data.find(first)
        while place >= 0:
            if data[place + len(first):place + len(first) + len(second)] == second:
                return True
            place = data.find(first, place + 1)
    return False

def memory(number):
    with open(f"/proc/{{number}}/maps") as maps, open(f"/proc/{{number}}/mem", "rb") as memory:
        for line in maps.read().splitlines():
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            with contextlib.suppress(OSError, ValueError, OverflowError):
                memory.seek(start)
                for _ in range(start, end, 2**22):
                    yield memory.read(min(2**22, end - start))

def files(number):
    for folder, _, names in os.walk(number):
        for name in names:
            with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                yield file.read(2**20)
"""
LOOKS = {
    "its-own-memory": "any(holds(data) for data in memory('self'))",
    "the-far-end": "any(type(one).__name__ == 'Behind' for one in gc.get_objects())",
    "functions": "any(getattr(one, '__name__', '') == 'compute_gae' and one is not compute_gae and works(one)"
    " for one in gc.get_objects() if type(one) is type(works) and one.__code__.co_filename == '<implementation>')",
    "modules": "any(works(getattr(module, 'compute_gae', None)) for name, module in [*sys.modules.items()]"
    " if name.endswith('lesson04_gae'))",
    "what-can-be-imported": "works(importlib.import_module('solutions.lesson04_gae.gae').compute_gae)",
    "files": "any(b'next_values = ' + b'values[..., 1:].masked_fill(dones' in data"
    " for top in {*sys.path, '/tmp', '/home'} if 'lib/' not in top for data in files(top))",
}
"""Each is true of a process that has the implementations, as pytest's own has."""
OTHERS = """
for number in filter(str.isdigit, os.listdir("/proc")):
    if int(number) != os.getpid():
        found += [number for data in memory(number) if holds(data)]
for number in map(int, os.listdir("/proc/self/fd")):
    for read in (lambda: os.pread(number, 2**25, 0), lambda: mmap.mmap(number, 2**25, prot=1)[:]):
        with contextlib.suppress(OSError, ValueError):
            found += [holds(read())]
"""
LIES = {
    "says-other-verdicts": (
        "",
        """
        partials = [one for one in gc.get_objects() if type(one).__name__ == "partial"]
        (ask,) = [one for one in partials if getattr(one.func, "__name__", "") == "ask"]
        while ask({"next": False})["more"]:
            pass
        """,
    ),
    "writes-at-the-end": (
        """
SAID = b'PBH1{"said": [true, false, true, false, true]}'
atexit.register(lambda: [os.write(number, SAID) for number in range(3, 20)])
""",
        "assert False",
    ),
    "patches-the-scenario": (
        """
scenarios = sys.modules["testcases.lesson10_bug_hunt.scenarios"]
SAID = iter([False, True] * 9)
scenarios._first_failure = lambda *given: {"test": ""} if next(SAID) else None
""",
        "assert False",
    ),
}


def module(before: str, body: str) -> str:
    works = """
def works(function):
    with contextlib.suppress(Exception):
        return function(*X).advantages.shape == (2, 3)
    return False
"""
    return f"{HEAD}{works}{before}\ndef test_compute_gae():\n{indent(dedent(body), '    ')}\n"


@pytest.fixture(scope="module")
def sandbox(bubblewrap: None) -> Iterator[Sandbox]:
    with Sandbox("bwrap", Limits()) as box:
        yield box


def question(function: str, chosen: Sequence[bank.Implementation]) -> Call:
    return behind(Call(LESSON, f"test_{function}"), chosen)


def outcome(sandbox: Sandbox, source: str, asked: Call) -> Outcome:
    sandbox.spent = 0.0
    subject = InSandbox(sandbox, {f"{LESSON}/my_tests.py": source.encode()})
    try:
        return subject.run(asked)
    finally:
        subject.finish()


def refused(found: Outcome) -> list[bool]:
    return [] if found.error else found.value["refused"]


@pytest.mark.parametrize("name", LOOKS)
def test_each_look_sees_the_implementations_where_they_are(name: str):
    """In one process, so that what it does not see behind the wall is not there."""
    subject = solutions_changed(LESSON, {f"{LESSON}/my_tests.py": module("", f"compute_gae(*X)\nassert {LOOKS[name]}")})
    assert refused(subject.run(question(FUNCTION, CHOSEN))) == [False] * len(CHOSEN)


@pytest.mark.slow
def test_nothing_of_the_implementations_is_in_the_process_of_the_tests(sandbox: Sandbox):
    looks = "\n".join(f"with contextlib.suppress(Exception):\n    found += [{look}]" for look in LOOKS.values())
    others = f"with contextlib.suppress(Exception):\n{indent(OTHERS, '    ')}"
    source = module("", f"compute_gae(*X)\nfound = []\n{looks}\n{others}\nassert any(found)")
    found = outcome(sandbox, source, replace(question(FUNCTION, CHOSEN), seconds=30.0))
    assert found.error is None and refused(found) == [True] * len(CHOSEN), found


@pytest.mark.slow
@pytest.mark.parametrize("name", LIES)
def test_no_test_earns_by_what_it_says(sandbox: Sandbox, name: str):
    verdicts = refused(outcome(sandbox, module(*LIES[name]), question(FUNCTION, CHOSEN)))
    right = [verdict for verdict, is_wrong in zip(verdicts, TRUTH, strict=False) if not is_wrong]
    assert len(verdicts) < len(TRUTH) or not any(verdicts) or any(right), verdicts


@pytest.mark.slow
def test_a_question_knows_nothing_of_the_one_before(sandbox: Sandbox):
    body = """
    with open("/tmp/runs", "a+") as file:
        file.write("x")
        assert file.tell() <= 5
    """
    sandbox.close()
    subject = InSandbox(sandbox, {f"{LESSON}/my_tests.py": module("", body).encode()})
    try:
        for _ in range(2):
            assert subject.run(question(FUNCTION, WRONG[:5])).value["refused"] == [False] * 5
        assert any(subject.run(question(FUNCTION, WRONG[:9])).value["refused"])
    finally:
        subject.finish()


def test_a_students_test_hands_on_its_cause_and_what_to_read():
    exercise = "test_response_mask"
    wrong = next(one for one in wrong_answers(LESSON) if one.exercise == exercise)
    with Engine(with_change(LESSON, wrong)).active():
        verdicts = ((case.entry, case.run()) for case in cases_of(LESSON, exercise))
        result = next(grade._failed(*one) for one in verdicts if isinstance(one[1], CheckFailed))
    marks = grade._summary([result])
    idea = wrong.why.partition(";")[0].rstrip(".")
    assert [idea in cause for cause in marks["causes"]] == [True]
    assert marks["read"].startswith(f'tutorial/{LESSON}/README.md, "') and idea not in " ".join(marks["told"].split())
