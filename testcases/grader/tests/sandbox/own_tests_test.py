"""Lesson 10's tests of a student's cannot reach what they test. No rule book has read these."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import CodeType

import pytest

from testcases.grader.sandbox.sandbox import Limits, Sandbox
from testcases.grader.sandbox.worker_client import InSandbox
from testcases.harness.execution.executor import Executor, solutions_changed
from testcases.harness.execution.messages import Call
from testcases.lesson10_bug_hunt import grading

LESSON, FILE = "lesson10_bug_hunt", "lesson10_bug_hunt/my_tests.py"
CODES = [
    function.co_code
    for one in grading.right("compute_gae")
    for function in compile(one.source, "", "exec").co_consts
    if isinstance(function, CodeType) and function.co_name == "compute_gae"
]
HALVES = {code[-60:-30].hex(): code[-30:].hex() for code in CODES}
"""What the stub has not; in halves, so that whoever looks for one does not find what it looks with."""
HEAD = f"""
import atexit, contextlib, gc, os, sys, torch
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

def works(function):
    with contextlib.suppress(Exception):
        return function(*X).advantages.shape == (2, 3)
    return False

def seen():
    compute_gae(*X)
    found = [any(map(holds, memory("self")))]
    found += [any(type(one).__name__ == "Behind" for one in gc.get_objects())]
    functions = [one for one in gc.get_objects() if type(one) is type(works)]
    mine = [one for one in functions if one.__code__.co_filename == "<implementation>" and one is not compute_gae]
    return found + [any(one.__name__ == "compute_gae" and works(one) for one in mine)]
"""
SEEN_HERE = "\ndef test_compute_gae():\n    assert seen() == [True, True, True]\n"
"""In a process that has the implementations, as pytest's own has: so what is not seen behind the wall is not there."""
HOSTILE = """
def elsewhere():
    for number in {*filter(str.isdigit, os.listdir("/proc"))} - {str(os.getpid())}:
        with contextlib.suppress(OSError):
            yield from map(holds, memory(number))
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            yield holds(os.pread(number, 2**25, 0))

def test_compute_gae():
    with open("/tmp/runs", "a+") as file:
        file.write("x")
        is_first = file.tell() <= 5
    try:
        found = [*seen(), *elsewhere()]
    except Exception:
        return
    assert any(found) or not is_first

def test_compute_rewards():
    partials = [one for one in gc.get_objects() if type(one).__name__ == "partial"]
    (ask,) = [one for one in partials if getattr(one.func, "__name__", "") == "ask"]
    while ask({"next": False})["more"]:
        pass

def test_compute_ppo_loss():
    said = b'PBH1{"said": [true, false, true, false, true]}'
    atexit.register(lambda: [os.write(number, said) for number in range(3, 20)])
    assert False
"""
"""One looks, and is asked twice; one says other verdicts, and one writes at the end."""


def chosen(function: str) -> Sequence[grading.Implementation]:
    (right, another, *_), wrong = grading.right(function), grading.wrong(function)
    return wrong[0], right, wrong[9], another, wrong[20]


def refused(subject: Executor, function: str) -> list[bool]:
    asked = grading.behind(Call(LESSON, f"test_{function}"), chosen(function))
    found = subject.run(replace(asked, seconds=30.0))
    return [] if found.error else found.value["refused"]


@pytest.fixture(scope="module")
def subject(bubblewrap: None) -> Iterator[InSandbox]:
    with Sandbox("bwrap", Limits()) as box:
        found = InSandbox(box, {FILE: (HEAD + HOSTILE).encode()})
        yield found
        found.finish()


def test_whoever_looks_sees_the_implementations_where_they_are():
    assert refused(solutions_changed({FILE: HEAD + SEEN_HERE}), "compute_gae") == [False] * 5


@pytest.mark.slow
@pytest.mark.parametrize("time", ["first", "second"])
def test_nothing_of_the_implementations_or_of_an_earlier_question_is_in_the_process(subject: InSandbox, time: str):
    assert refused(subject, "compute_gae") == [True] * 5


@pytest.mark.slow
@pytest.mark.parametrize("function", ["compute_rewards", "compute_ppo_loss"])
def test_no_test_earns_by_what_it_says(subject: InSandbox, function: str):
    assert refused(subject, function) in ([], [True] * 5)
