"""Scenarios for every lesson: an exercise whose answer is written over, or that is called before others are written."""

import inspect
from collections.abc import Callable
from typing import Any, NoReturn
from unittest import mock

from torch import Tensor


def after_the_answer_is_overwritten(lesson: Any, exercise: str, argument: str, **given: Any) -> Tensor:
    """An argument is what it was, if the answer is a tensor of its own."""
    given[argument] = given[argument].clone()
    getattr(lesson, exercise)(**given).fill_(-1)
    return given[argument]


def alone(lesson: Any, exercise: str, later: str, **given: Any) -> Any:
    """The functions that come `later` in the file are not written yet: does the exercise need them?"""
    function = getattr(lesson, exercise)

    def missing(name: str) -> Callable[..., NoReturn]:
        def not_there(*args: Any, **options: Any) -> NoReturn:
            raise RuntimeError(f"{exercise} calls {name}, which comes later and generalizes it")

        return not_there

    names = inspect.unwrap(function).__globals__
    with mock.patch.dict(names, {name: missing(name) for name in later.split()}):
        return function(**given)
