"""Scenarios for every lesson: an exercise whose answer is written over, or that is called before others are written."""

import inspect
from collections.abc import Callable
from typing import Any, NoReturn
from unittest import mock

import torch
from torch import Tensor, nn


def after_the_answer_is_overwritten(lesson: Any, exercise: str, argument: str, **given: Any) -> Tensor:
    """An argument is what it was, if the answer is a tensor of its own."""
    given[argument] = given[argument].clone()
    getattr(lesson, exercise)(**given).fill_(-1)
    return given[argument]


def after_another_batch(model: nn.Module, method: str, *arguments: Any) -> None:
    """Let a method of the model read the rows in reverse order: of those it may keep nothing, and change no mode."""
    modes = [module.training for module in model.modules()]
    with torch.no_grad():
        getattr(model, method)(*(part.flip(0) if isinstance(part, Tensor) else part for part in arguments))
    if modes != [module.training for module in model.modules()]:
        raise ValueError(f"expected {method} to leave train and eval modes as they were, each module's its own")


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
