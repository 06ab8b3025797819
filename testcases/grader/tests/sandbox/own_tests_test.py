"""Lesson 10's tests of a student's cannot reach what they test. No rule book has read these."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent, indent
from types import CodeType
from typing import Any

import pytest
import torch

from testcases.grader.sandbox.limits import Limits
from testcases.grader.sandbox.sandbox import Sandbox
from testcases.grader.sandbox.worker_client import InSandbox
from testcases.harness.catalog.handles import Exercise
from testcases.harness.catalog.lessons import SOLUTIONS
from testcases.harness.execution import wire
from testcases.harness.execution.executor import solutions_changed
from testcases.harness.execution.messages import Call, Outcome
from testcases.harness.suite.asserts import example, scenario
from testcases.lesson10_bug_hunt import bank
from testcases.lesson10_bug_hunt.scenarios_behind import Behind
from testcases.lesson10_bug_hunt.scenarios_calls import Caller

LESSON, FUNCTION = "lesson10_bug_hunt", "compute_gae"
RIGHT, WRONG = bank.right(FUNCTION), bank.wrong(FUNCTION)
CHOSEN = (WRONG[0], RIGHT[0], WRONG[9], RIGHT[1], WRONG[20])
TRUTH = [one.probe is not None for one in CHOSEN]
KNOWN = [hashlib.sha1(one.source.encode()).hexdigest() for one in RIGHT]
CODES = [
    hashlib.sha1(function.co_code).hexdigest()
    for one in RIGHT
    for function in compile(one.source, "", "exec").co_consts
    if isinstance(function, CodeType) and function.co_name == FUNCTION
]
HEAD = f"""
import builtins, gc, hashlib, json, os, signal, sys, threading, time, torch, zlib
from ..lesson04_gae import compute_gae

KNOWN, CODES = {KNOWN}, {CODES}
X = torch.ones(2, 3), torch.ones(2, 4), torch.zeros(2, 3)

def by_text(text):
    assert hashlib.sha1(text.encode()).hexdigest() in KNOWN

def by_oracle(function):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(2, 5, generator=draw), torch.randn(2, 6, generator=draw), torch.tensor([[0, 1, 0, 0, 1]] * 2)
    assert function is not compute_gae
    assert all(torch.allclose(a, b) for a, b in zip(compute_gae(*x, 0.5, 0.25), function(*x, 0.5, 0.25)))

def texts_of(frame):
    while frame:
        for value in list(frame.f_locals.values()):
            if type(value) is str and "def compute_gae" in value:
                return value
        frame = frame.f_back
    return ""

def kept(value):
    if type(value) is str and "def compute_gae" in value:
        builtins.kept = value
"""
HOSTILE = {
    "frames": "by_text(texts_of(sys._getframe()))",
    "a-thread-that-outlives": """
        def watch():
            while True:
                kept(texts_of(sys._current_frames()[threading.main_thread().ident]))
        threading.Thread(target=watch, daemon=True).start()
        time.sleep(0.05)
        by_text(builtins.kept)
    """,
    "gc-lists": """
        for one in gc.get_objects():
            if type(one).__name__ == "list_iterator":
                _, (texts,), *place = one.__reduce__()
                if texts and place and type(texts[0]) is str and "def compute_gae" in texts[0]:
                    return by_text(texts[place[0] - 1])
            if type(one).__name__ == "generator" and one.gi_frame and texts_of(one.gi_frame):
                return by_text(texts_of(one.gi_frame))
        by_text(texts_of(sys._current_frames()[threading.get_ident()]))
    """,
    "a-trace-a-profile-a-signal": """
        look = lambda frame, *_: kept(texts_of(frame))
        for setter in (sys.settrace, sys.setprofile):
            setter(look)
            compute_gae(*X)
            setter(None)
        old = signal.signal(signal.SIGUSR1, lambda number, frame: look(frame))
        os.kill(os.getpid(), signal.SIGUSR1)
        compute_gae(*X)
        signal.signal(signal.SIGUSR1, old)
        by_text(builtins.kept)
    """,
    "the-error-s-frames": """
        try:
            compute_gae(1, 2, 3)
        except Exception as error:
            frame = error.__traceback__.tb_frame
            by_text(texts_of(frame))
    """,
    "loaded-modules-by-any-name": """
        for name, module in list(sys.modules.items()):
            if name.endswith("lesson04_gae") and callable(getattr(module, "compute_gae", None)):
                return by_oracle(module.compute_gae)
        import importlib
        try:
            beside = importlib.import_module(__name__.split(".")[0] + ".lesson04_gae.gae")
        except ImportError:
            beside = importlib.import_module("solutions.lesson04_gae")
        by_oracle(beside.compute_gae)
    """,
    "all-files": """
        for place, _, names in os.walk(os.path.expanduser("~")):
            if place.endswith("lesson04_gae") and "gae.py" in names:
                space = {"__name__": "solutions.lesson04_gae.mine", "__package__": "solutions.lesson04_gae"}
                exec(open(place + "/gae.py").read(), space)
                return by_oracle(space["compute_gae"])
        assert False
    """,
    "closure": """
        cells = [cell.cell_contents for cell in compute_gae.__closure__]
        (function,) = [one for one in cells if callable(one) and one.__name__ == "compute_gae"]
        import importlib
        by_oracle(importlib.import_module(function.__module__.rpartition(".")[0]).compute_gae)
    """,
    "other-verdicts-in-the-end": """
        behind = [one for one in gc.get_objects() if type(one).__name__ == "Caller"][0]
        scenarios = sys.modules["testcases.lesson10_bug_hunt.scenarios"]
        while behind.next(False):
            pass
        scenarios.FLAKY = "x"
        type(behind).next = lambda self, refused: False
    """,
    "lines-of-the-protocol": """
        for number in range(3, 60):
            try:
                os.write(number, b'PBH1{"outcome": {"value": {"problem": "", "refused": []}}}')
            except OSError:
                pass
    """,
    "exit": "os._exit(0)",
    "environments-and-commands": """
        for number in filter(str.isdigit, os.listdir("/proc")):
            for file in ("environ", "cmdline", "stack"):
                try:
                    text = open(f"/proc/{number}/{file}", "rb").read().decode("utf-8", "replace")
                except OSError:
                    continue
                if "def compute_gae" in text:
                    return by_text(text)
        assert False
    """,
    "memory-of-others": """
        for number in filter(str.isdigit, os.listdir("/proc")):
            if int(number) == os.getpid():
                continue
            try:
                maps = open(f"/proc/{number}/maps").read().splitlines()
                with open(f"/proc/{number}/mem", "rb") as memory:
                    for line in maps:
                        start, _, end = line.partition(" ")[0].partition("-")
                        memory.seek(int(start, 16))
                        found = memory.read(int(end, 16) - int(start, 16)).partition(b"def compute_gae")
                        if found[1]:
                            return by_text(found[2][:1000].decode("utf-8", "replace"))
            except (OSError, ValueError, OverflowError):
                pass
        assert False
    """,
    "descriptors": """
        import mmap
        for number in map(int, os.listdir("/proc/self/fd")):
            for read in (lambda: os.pread(number, 2**25, 0), lambda: mmap.mmap(number, 2**25, prot=1)[:]):
                try:
                    data = read()
                except (OSError, ValueError):
                    continue
                start = data.find(b"x\\x9c")
                texts = [data] if start < 0 else [data, zlib.decompressobj().decompress(data[start:])]
                if any(b"def compute_gae" in text for text in texts):
                    return by_text(texts[-1].decode("utf-8", "replace"))
        assert False
    """,
    "the-far-end": """
        compute_gae(*X)
        far = [one for one in gc.get_objects() if type(one).__name__ == "Behind" and len(one._functions)]
        codes = [one.__code__ for one in far[-1]._functions.values()]
        assert any(hashlib.sha1(one.co_code).hexdigest() in CODES for one in codes)
    """,
    "what-came-ahead": """
        compute_gae(*X)
        (line,) = [one for one in gc.get_objects() if type(one).__name__ == "Line"]
        for answer in [*line._known.values(), *line._numbers]:
            if b"def compute_gae" in str(answer).encode():
                return by_text(str(answer))
        assert False
    """,
    "numbers-that-nobody-gave": """
        import struct
        (line,) = [one for one in gc.get_objects() if type(one).__name__ == "Line"]
        for head in ((True, 3, 0, 1, 2), (False, 2, 10**6, 7), (False, 2**32 - 1), (True, 0)):
            line._send(struct.pack(f"<?{len(head) - 1}I", *head))
        line._send(b"PBH1" + bytes(100) + b"[" * 10_000)
        by_text(str(line._received()))
    """,
}
BEFORE = {
    "an-import-hook": """
if not hasattr(builtins, "real"):
    builtins.real = builtins.__import__
    def hook(name, *rest, **options):
        module = builtins.real(name, *rest, **options)
        for value in list(vars(module).values()):
            kept(value)
        kept(texts_of(sys._getframe(1)))
        return module
    builtins.__import__ = hook
""",
    "at-the-end": """
import atexit
SAID = b'PBH1{"said": [true, false, true, false, true]}'
atexit.register(lambda: [os.write(number, SAID) for number in range(3, 20)])
""",
    "patched-builtins": """
real, run = builtins.compile, builtins.exec
def compile(source, *rest, **options):
    kept(source)
    return real(source, *rest, **options)
def exec_(code, *rest):
    kept(texts_of(sys._getframe(1)))
    return run(code, *rest)
builtins.compile, builtins.exec = compile, exec_
""",
    "patched-json": """
if not hasattr(json, "real"):
    json.real = json.loads
    def loads(text, **options):
        found = json.real(text, **options)
        if type(found) is list and found and type(found[0]) is str:
            class Each(list):
                def __iter__(self):
                    for one in list.__iter__(self):
                        kept(one)
                        yield one
            found = Each(found)
        return found
    json.loads = loads
""",
    "patched-scenarios": """
scenarios = sys.modules["testcases.lesson10_bug_hunt.scenarios"]
if not hasattr(scenarios, "real"):
    scenarios.real = scenarios._TestFile.refusal
    def refusal(self, *args, **options):
        kept(texts_of(sys._getframe(1)))
        return scenarios.real(self, *args, **options)
    scenarios._TestFile.refusal = refusal
""",
    "an-audit-hook": """
def hook(event, args):
    if event == "compile" and args[0] is not None:
        kept(args[0].decode() if type(args[0]) is bytes else args[0])
sys.addaudithook(hook)
""",
}
HOSTILE |= dict.fromkeys(BEFORE, "by_text(builtins.kept)")


@pytest.fixture(scope="module")
def sandbox(bubblewrap: None) -> Iterator[Sandbox]:
    with Sandbox("bwrap", Limits()) as box:
        yield box


def question(function: str, chosen: tuple[bank.Implementation, ...]) -> Call:
    packed = bank.packed([one.source for one in chosen])
    asked = example(scenario("verdicts", of=Exercise(LESSON, f"test_{function}")), function=function, bank=packed)
    return replace(asked, behind=("bank",))


def outcome(sandbox: Sandbox, source: str, asked: Call) -> Outcome:
    sandbox.begin()
    subject = InSandbox(sandbox, {f"{LESSON}/my_tests.py": source.encode()})
    try:
        return subject.run(asked)
    finally:
        subject.finish()


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_test_earns_by_what_it_finds(sandbox: Sandbox, name: str):
    source = f"{HEAD}{BEFORE.get(name, '')}\ndef test_compute_gae():\n{indent(dedent(HOSTILE[name]), '    ')}\n"
    found = outcome(sandbox, source, question(FUNCTION, CHOSEN))
    refused = [] if found.error else found.value["refused"]
    right = [verdict for verdict, is_wrong in zip(refused, TRUTH, strict=False) if not is_wrong]
    earned = len(refused) == len(TRUTH) and any(refused) and not any(right)
    assert not earned, refused


@pytest.mark.slow
@pytest.mark.parametrize("function", bank.FAMILIES)
def test_an_honest_test_has_the_same_verdicts_as_in_one_process(sandbox: Sandbox, function: str):
    source = Path(SOLUTIONS / LESSON / "my_tests.py").read_text("utf-8")
    chosen = (*bank.right(function), *bank.wrong(function)[::4])
    found = outcome(sandbox, source, replace(question(function, chosen), seconds=30.0))
    assert found.error is None and found.value["problem"] == "", found
    assert found.value["refused"] == [one.probe is not None for one in chosen]


@pytest.mark.slow
def test_what_is_asked_after_tests_does_not_wait_for_them(sandbox: Sandbox):
    """A lesson has one worker at a time, and the one with the implementations outlives the tests."""
    tests = "from ..lesson04_gae import compute_gae\n\n\ndef test_compute_gae():\n    assert compute_gae\n"
    files = {"my_tests.py": tests, "packed.py": Path(SOLUTIONS / LESSON / "packed.py").read_text("utf-8")}
    sandbox.begin()
    subject = InSandbox(sandbox, {f"{LESSON}/{file}": text.encode() for file, text in files.items()})
    try:
        assert subject.run(question(FUNCTION, CHOSEN[:2])).value["refused"] == [False, False]
        found = subject.run(example(Exercise(LESSON, "credit_packed"), 1))
        assert found.error and found.error.kind == "signature", found
        assert sandbox.failures == 0
    finally:
        subject.finish()


def test_a_line_answers_as_one_process_does():
    chosen = [one.source for one in (RIGHT[0], WRONG[0], *RIGHT[1:], WRONG[9])]
    questions = [
        ((torch.ones(2, size), torch.ones(2, size + 1), torch.zeros(2, size)), {"gamma": gamma})
        for size in (1, 2, 3, 4)
        for gamma in (0.0, 0.5, 1.0)
    ]

    def answers(caller: Caller) -> Iterator[list[Any]]:
        goes_on = True
        while goes_on:
            found: list[Any] = []
            for args, options in (*questions, *questions):
                leaf = args[0].double().requires_grad_()
                answer = caller.call("lesson04_gae", (leaf, *args[1:]), options)
                slope = torch.autograd.grad(answer.advantages.sum() + (answer.returns**2).sum(), leaf)
                found += [answer.advantages, answer.returns, *slope]
            yield found
            goes_on = caller.next(False)

    near, far = socket.socketpair()
    behind = Behind(FUNCTION, bank.packed(chosen))
    thread = threading.Thread(target=wire.Line(far).answer_all, args=[behind.answer])
    thread.start()
    line = wire.Line(near)
    across = list(answers(Caller(line.ask)))
    near.shutdown(socket.SHUT_RDWR)
    thread.join()
    near.close()
    far.close()
    here = list(answers(Caller(Behind(FUNCTION, bank.packed(chosen)).answer)))
    assert len(across) == len(here) == len(chosen) == len(behind.said)
    assert all(
        torch.equal(a, b) for one, other in zip(across, here, strict=True) for a, b in zip(one, other, strict=True)
    )


def test_a_test_that_refuses_by_chance_as_it_is_loaded_is_named():
    tests = "import random\nfrom ..lesson04_gae import compute_gae\n\ndraw = random.random()\n\n\n"
    source = f"{tests}def test_compute_gae():\n    assert draw > 0.5\n"
    subject = solutions_changed(LESSON, {f"{LESSON}/my_tests.py": source})
    found = subject.run(question(FUNCTION, (*RIGHT, *WRONG[:8])))
    assert found.error is None and "do not agree" in found.value["problem"]
