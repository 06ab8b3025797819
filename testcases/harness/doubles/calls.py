"""Scenarios for every lesson: an exercise called otherwise than once, and what a call may not leave behind."""

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


def forget_the_batch(model: nn.Module, method: str, *arguments: Any) -> None:
    """Call a method of a model without gradients.

    Raises:
        ValueError: a tensor was kept in the model, or a mode of one of its modules changed.
    """
    own, modes = set(vars(model)), [module.training for module in model.modules()]
    with torch.no_grad():
        getattr(model, method)(*arguments)
    kept = [name for name, value in vars(model).items() if name not in own and _has_tensors(value)]
    if kept:
        raise ValueError(f"expected {method} to keep nothing of a batch in the model, got {', '.join(kept)}")
    if [module.training for module in model.modules()] != modes:
        raise ValueError(f"expected {method} to leave train and eval modes as they were, each module's its own")


def _has_tensors(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return isinstance(value, Tensor) or any(map(_has_tensors, parts))
