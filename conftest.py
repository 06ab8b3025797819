"""pytest for students: its options and marks, and which suites an argument stands for."""

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

for file in Path.cwd().glob("*.py"):
    if str(file.parent) in sys.path and file.stem in {*sys.stdlib_module_names, "numpy", "torch", "transformers"}:
        why = f"so whatever imports {file.stem} gets your file: rename it."
        raise SystemExit(f"{file.name} has the name of the library {file.stem}, {why}")
# Models as small as these lose more to a second thread than they gain: on a busy machine two thirds of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from testcases.harness.catalog import CONTRACT, KINDS, TESTCASES, TUTORIAL, lesson_names, read_lesson
from testcases.harness.student import own_tests
from testcases.harness.student.last_words import LastWords
from testcases.harness.student.running import Running, folder_of
from testcases.harness.student.summary import Summary


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("PPO by Hand")
    group.addoption("--subject", default="tutorial", help='whose code: a copy of tutorial/ (default), or "solutions"')
    group.addoption("--full", action="store_true", help="show every failure, not only the first ones of each exercise")


def pytest_configure(config: pytest.Config) -> None:
    for name in lesson_names():
        config.addinivalue_line("markers", f"{read_lesson(name).short}: the suite of {name}")
    config.addinivalue_line("markers", "points(number): what a test is worth, if it is not 1")
    for kind, about in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {about}")
    subject = config.getoption("--subject")
    if subject != "solutions" and not folder_of(subject).is_dir():
        raise pytest.UsageError(f"--subject: there is no folder {subject!r}")
    if subject != "solutions":
        # A library's warning, or that of a file left open, is no mistake; for each test, and for the end of the run.
        config.addinivalue_line("filterwarnings", "ignore")
        warnings.simplefilter("ignore")
    config.args = list(dict.fromkeys(suite for arg in config.args for suite in _suites_of(config, arg)))
    if config.option.verbose == 0:  # The configuration says -q, so this is -v: the names of the tests are wanted.
        config.option.verbose = 1
    is_own = any(own_tests.is_own_tests(config.invocation_params.dir / arg) for arg in config.args)
    if is_own and not config.pluginmanager.is_registered(own_tests):
        config.pluginmanager.register(own_tests)
    last_words = LastWords(config, folder_of(subject) if subject != "solutions" else None)
    running = Running(config, last_words)
    for plugin in (last_words, running, Summary(config, running)):
        config.pluginmanager.register(plugin)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded to collect the tests stays: to look for garbage in it takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def _suites_of(config: pytest.Config, arg: str) -> list[str]:
    """What to run for an argument of pytest: for a lesson's folder, or a file of it in `tutorial/`, its suites and
    contract_test.py, which asks the lessons that are among the arguments. A student's own tests are a suite."""
    path = (config.invocation_params.dir / arg).resolve()
    inside = path.relative_to(TUTORIAL).parts[:1] if path.is_relative_to(TUTORIAL) else ()
    names = [name for name in lesson_names() if path in (TESTCASES / name, TUTORIAL) or name in inside]
    if not names or own_tests.is_own_tests(path):
        return [arg]
    return [*(str(TESTCASES / name) for name in names), str(TESTCASES / f"{CONTRACT}.py")]
