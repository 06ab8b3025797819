"""Runs a student's tests on implementations that are in another process, each under the one name that tests import.

Nothing of the implementations, of their order or of the reference is here: code of a student's runs in this process.
"""

import builtins
import importlib
import itertools
import operator
import random
import traceback
from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import CodeType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

FUNCTIONS = {
    "lesson01_masked_sequences": "response_mask",
    "lesson04_gae": "compute_gae",
    "lesson05_ppo_loss": "compute_ppo_loss",
    "lesson06_kl_rewards": "compute_rewards",
}
"""The lesson and the function of it that tests may import."""
COURSE = "solutions", "tutorial", "testcases", "ppo_by_hand", "tiny_models"
Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""Sends a message to the implementations, and waits for the answer of `scenarios_behind.Behind`."""
_record = cache(namedtuple)


def verdicts(lesson: Any, ask: Ask, function: str, up_to_a_refusal: bool = False) -> dict[str, Any]:
    """Which implementations the tests of one function refuse. Each meets a copy of the test file of its own.

    With `up_to_a_refusal` the first that is refused ends it, and the answer tells of the test and its last call.
    """
    module = importlib.import_module(f"{lesson.__name__}.my_tests")
    code = module.__loader__.get_code(module.__name__)
    refused: list[bool] = []
    more = True
    while more:
        torch.default_generator.manual_seed(len(refused))  # manual_seed asks for every device there may be
        random.seed(len(refused))
        failure = _first_failure(code, module.__name__, ask, function)
        refused.append(failure is not None)
        more = ask({"next": refused[-1]})["more"]
        if failure and up_to_a_refusal:
            return {"refused": refused, **failure}
    return {"refused": refused}


def _first_failure(code: CodeType, name: str, ask: Ask, function: str) -> dict[str, Any] | None:
    last: dict[str, Any] = {}
    space = {"__name__": name, "__builtins__": {**vars(builtins), "__import__": _import_for(ask, function, last)}}
    exec(code, space)
    tests = [(name, test) for name, test in space.items() if name.startswith(f"test_{function}") and callable(test)]
    for name, test, parameters in [(*one, row) for one in tests for row in _parameters(one[1])]:
        last.clear()
        try:
            test(**parameters)
        except BaseException as error:
            kind = type(error).__name__  # those of pytest.fail and pytest.skip are no Exceptions
            is_stub = isinstance(error, NotImplementedError) and str(error).startswith("lesson10: ")
            if is_stub or not isinstance(error, Exception) and kind not in ("Failed", "Skipped"):
                raise  # not started yet, the end of the time, or Ctrl-C
            if kind != "Skipped":
                return {"test": name, **_told(error, code.co_filename), **last}
    return None


def _import_for(ask: Ask, function: str, last: dict[str, Any]) -> Callable[..., Any]:
    """What `import` does in a test file; the last call of the function is kept."""

    def call(lesson: str, /, *args: Any, **options: Any) -> Any:
        of_last = last if FUNCTIONS[lesson] == function else {}
        of_last.clear()
        of_last |= {"positional": args, "options": options}
        of_last["answer"] = call_across(ask, lesson, args, options)
        return of_last["answer"]

    def give(name: str, *rest: Any) -> Any:
        level = rest[3] if len(rest) > 3 else 0
        if level and name in FUNCTIONS:
            return SimpleNamespace(**{FUNCTIONS[name]: partial(call, name)})
        if level or name.partition(".")[0] in COURSE:
            raise ImportError(f"{name or 'it'} cannot be imported: of the course there are only the four functions")
        return builtins.__import__(name, *rest)

    return give


def _told(error: BaseException, path: str) -> dict[str, Any]:
    """An exception, whether it is an assertion's, and the test's line that it came through."""
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    text = f"{type(error).__name__}: {error}".strip().removesuffix(":")[:300]
    asserts = isinstance(error, AssertionError) or type(error).__name__ == "Failed"
    return {"asserts": asserts, "error": text, "line": own[-1] if own else None}


def _parameters(test: Any) -> Iterator[dict[str, Any]]:
    """What `pytest.mark.parametrize` would pass."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    for chosen in itertools.product(*(_rows(*mark.args[:2], **mark.kwargs) for mark in marks)):
        yield {name: value for row in chosen for name, value in row.items()}


def _rows(argnames: Any, argvalues: Any, **_: Any) -> list[dict[str, Any]]:
    single = isinstance(argnames, str) and "," not in argnames
    names = [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else argnames
    rows = [row.values if hasattr(row, "marks") else (row,) if single else row for row in argvalues]
    return [dict(zip(names, row, strict=True)) for row in rows]


def call_across(ask: Ask, lesson: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call the function of a lesson in the other process; gradients cross when they are asked for.

    Raises:
        Exception: what it raised, of the same type if that is one of Python's.
    """
    given = [tuple(value) if isinstance(value, (set, range)) else value for value in (*args, *options.values())]
    tracked = [isinstance(value, Tensor) and value.requires_grad for value in given]
    plain = [value.detach() if isinstance(value, Tensor) else value for value in given]
    answer = _answered(ask, {"call": lesson, "given": plain, "tracked": tracked, "names": list(options)})
    leaves = [value for value, is_tracked in zip(given, tracked, strict=True) if is_tracked]
    parts = _Across.apply(ask, answer, *leaves)
    return _record("Answer", tuple(answer["fields"]))(*parts) if answer["fields"] else parts[0]


class _Across(torch.autograd.Function):
    """The step from the inputs to the answer, of which the other process keeps the graph: so does the step back."""

    @staticmethod
    def forward(ctx: Any, ask: Ask, answer: dict[str, Any], *leaves: Tensor) -> tuple[Tensor, ...]:
        ctx.ask, ctx.number, parts = ask, answer["number"], answer["parts"]
        ctx.mark_non_differentiable(*itertools.compress(parts, map(operator.not_, answer["tracked"])))
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return None, None, *_answered(ctx.ask, {"back": ctx.number, "slopes": list(slopes)})["slopes"]


def _answered(ask: Ask, message: dict[str, Any]) -> dict[str, Any]:
    answer = ask(message)
    if "error" in answer:
        name, text = answer["error"]
        kind = getattr(builtins, name, RuntimeError)
        raise kind(text) if kind in (TypeError, ValueError, IndexError, KeyError) else RuntimeError(text)
    return answer
