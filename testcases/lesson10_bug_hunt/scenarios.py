"""Runs a student's tests on implementations that are in another process, each under the one name that tests import.

Nothing of the implementations, of their order or of the reference is here: code of a student's runs in this process.
"""

import builtins
import functools
import importlib
import inspect
import itertools
import random
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .scenarios_calls import Ask, Caller

FUNCTIONS = {
    "lesson01_masked_sequences": "response_mask",
    "lesson04_gae": "compute_gae",
    "lesson05_ppo_loss": "compute_ppo_loss",
    "lesson06_kl_rewards": "compute_rewards",
}
"""The lesson and the function of it that tests may import."""
REFUSED, OUTSIDE, BROKEN = "refused", "outside", "broken"
"""What a failed test says of a right implementation: another answer was expected, a call is not one that the contract
allows, or the test's own code raised."""
FLAKY = "two runs on one function do not agree: a test depends on the order, on chance or on another test"


def verdicts(lesson: Any, ask: Ask, function: str) -> dict[str, Any]:
    """Which implementations the tests of one function refuse.

    Every implementation meets a fresh copy of the test file. A second run, each test alone and in reverse order, must
    come to the same verdict; where one failed, that one is enough. It is left out where it is known: it would be the
    first again, or the first has heard word for word what it heard of an implementation before.
    """
    file = _TestFile(lesson, Caller(ask), function)
    refused: list[bool] = []
    runs: dict[Any, bool] = {}
    goes_on = True
    while goes_on:
        file.caller.heard = []
        found = file.refusal(alone=False)
        heard = tuple(file.caller.heard)
        if file.was_alone:
            runs[heard] = bool(found)
        elif None in heard or heard not in runs:
            runs[heard] = bool(file.refusal(alone=True, first=found["place"] if found else None))
        if bool(found) != runs[heard]:
            return {"problem": f"my_tests.py: {FLAKY}", "refused": refused}
        refused.append(bool(found))
        goes_on = file.caller.next(bool(found))
    return {"problem": "", "refused": refused, "left_out": file.left_out()}


def refusal(lesson: Any, ask: Ask, function: str) -> dict[str, Any]:
    """The test that refuses the first implementation, and the last call before: its arguments and answer."""
    file = _TestFile(lesson, Caller(ask), function)
    return file.refusal(alone=False) or file.refusal(alone=True) or {}


class _TestFile:
    """A student's my_tests.py, made anew for each implementation.

    Attributes:
        last: the last call of the function.
        was_alone: whether the last run was of one test and drew nothing at random.
    """

    def __init__(self, lesson: Any, caller: Caller, function: str) -> None:
        self.caller, self.function, self.runs = caller, function, 0
        self.last: dict[str, Any] = {}
        self.was_alone: Any = False
        module = importlib.import_module(f"{lesson.__name__}.my_tests")
        source = module.__loader__.get_data(module.__file__).decode("utf-8-sig")
        self.name = module.__name__
        self.path = str(module.__file__)
        self.code = compile(source, self.path, "exec", dont_inherit=True)
        self.home = next(lesson for lesson, name in FUNCTIONS.items() if name == function)

    def given(self, lesson: str) -> Callable[..., Any]:
        """The function that a test gets when it imports it from a lesson."""

        def call(*args: Any, **options: Any) -> Any:
            last = self.last if lesson == self.home else {}
            last.clear()
            if spy := next((type(one).__name__ for one in (*args, *options.values()) if not _is_plain(one)), ""):
                raise TypeError(f"an argument is a {spy}: give tensors, numbers and tuples of them")
            last |= {"positional": args, "options": options}
            last["answer"] = self.caller.call(lesson, args, options)
            return last["answer"]

        return call

    def left_out(self) -> str:
        """The first thing with the name of a test that is not run, and that no `def` or `class` in the text names."""
        others = tuple(f"test_{name}" for name in FUNCTIONS.values() if name != self.function)
        for name, value in self._copy().items():
            is_known = getattr(value, "__name__", "") == name or name.startswith(others)
            if name.startswith("test") and callable(value) and not is_known:
                if not (name.startswith(f"test_{self.function}") and _is_test(value)):
                    return name
        return ""

    def tests(self) -> list[tuple[str, Callable[..., None], dict[str, Any]]]:
        """The tests of this function, in the order of the file, from a fresh copy of it."""
        return [
            (name, function, parameters)
            for name, function in self._copy().items()
            if name.startswith(f"test_{self.function}") and callable(function) and _is_test(function)
            for parameters in _parameters(function)
        ]

    def _copy(self) -> dict[str, Any]:

        def give(name: str, *rest: Any) -> Any:
            level = rest[3] if len(rest) > 3 else 0
            if level and name in FUNCTIONS:
                return types.SimpleNamespace(**{FUNCTIONS[name]: self.given(name)})
            return builtins.__import__(name, *rest)

        space = {"__name__": self.name, "__builtins__": {**vars(builtins), "__import__": give}}
        exec(self.code, space)
        return space

    def refusal(self, alone: bool, first: int | None = None) -> dict[str, Any] | None:
        """The first test that fails, None if all pass; with `alone` in reverse order, each in a copy of its own, and
        the one at the place `first` before all others."""
        self.runs += 1
        torch.default_generator.manual_seed(self.runs)  # manual_seed asks for every device there may be
        random.seed(self.runs)
        before, tests = _random_state(), self.tests()
        order = [place for place in reversed(range(len(tests))) if place != first] if alone else range(len(tests))
        for number, place in enumerate(order if first is None else (first, *order), 1):
            name, function, parameters = self.tests()[place] if alone else tests[place]
            self.last.clear()
            error = _error_of(function, parameters)
            self.was_alone = number == 1 and (error or len(tests) == 1) and before == _random_state()
            if error:
                return {"place": place, "test": name, **self._told(error), **self.last}
        return None

    def _told(self, error: BaseException) -> dict[str, Any]:
        """An exception, whose it is, and the test's line that it came through."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename == self.path]
        if isinstance(error, AssertionError) or type(error).__name__ == "Failed":
            kind = REFUSED
        else:
            kind = OUTSIDE if any(frame.filename == __file__ and frame.name == "call" for frame in frames) else BROKEN
        text = f"{type(error).__name__}: {error}".strip().removesuffix(":")[:300]
        if own:
            return {"kind": kind, "error": text, "line": own[-1].lineno}
        asks = ". Fixtures are not known here: call a plain function" if "required positional" in text else ""
        return {"kind": kind, "error": text + asks}


def _random_state() -> tuple[bytes, Any]:
    return torch.default_generator.get_state().numpy().tobytes(), random.getstate()


def _is_plain(value: Any) -> bool:
    """Whether it is what these functions take: an object that notes what is done to it would see how they work."""
    if type(value) in (list, tuple, set, frozenset, range):
        return all(map(_is_plain, value))
    return value is None or type(value) in (torch.Tensor, torch.nn.Parameter, bool, int, float, str)


def _is_test(value: Any) -> bool:
    """As pytest says: a function, wrapped or with some of its arguments given."""
    inner = inspect.unwrap(value)
    return inspect.isfunction(inner.func if isinstance(inner, functools.partial) else inner)


def _error_of(function: Callable[..., None], parameters: dict[str, Any]) -> BaseException | None:
    """What a test raised; None if it passed."""
    try:
        if isinstance(waits := function(**parameters), (types.GeneratorType, types.CoroutineType)):
            waits.close()
            return TypeError("nothing of it is run: a test has no yield, and is not async")
    except NotImplementedError as error:
        if str(error).startswith("lesson10: "):  # The stub's own: not started, and no verdict.
            raise
        return error
    except Exception as error:
        return error
    except BaseException as error:
        # pytest.fail and pytest.skip are no Exceptions; the end of the time, and Ctrl-C, must pass.
        if type(error).__name__ in ("Failed", "SystemExit"):
            return error
        if type(error).__name__ != "Skipped":
            raise
    return None


def _parameters(function: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """What `pytest.mark.parametrize` would pass; nothing for a test that pytest would leave out."""
    tables = []
    for mark in getattr(function, "pytestmark", []):
        if mark.name in ("skip", "xfail") or mark.name == "skipif" and mark.args[0]:
            return
        if mark.name == "parametrize":
            tables.append(_rows(*mark.args[:2], **mark.kwargs))
    for chosen in itertools.product(*tables):
        yield {name: value for row in chosen for name, value in row.items()}


def _rows(argnames: Any, argvalues: Any, **_: Any) -> list[dict[str, Any]]:
    names = [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else list(argnames)
    names = [name for name in names if name]
    single = isinstance(argnames, str) and "," not in argnames
    rows = [row.values if hasattr(row, "marks") else (row,) if single else row for row in argvalues]
    return [dict(zip(names, row, strict=True)) for row in rows]
