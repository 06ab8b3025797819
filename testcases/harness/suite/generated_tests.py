"""The tests that are the same for every exercise, made from the reference's signature and the lesson's examples.

A lesson's contract_test.py asks for them, and says only what differs from exercise to exercise:

    contract_tests(globals(), defaults=[compute_gae], float32=[compute_gae], refusals={compute_gae: (EPISODE, BAD)})

Where a suite of the lesson has a test of the same name, such as `test_compute_gae_agrees_with_the_reference`, that one
counts and none is made. `points.made_tests` reads the call without running it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ..catalog import AGREEMENT, DEFAULTS, FLOAT32, REFUSALS, Exercise, exercise_of, made_tests
from ..execution import Request, copy_plain, tensors_in
from .checks import call
from .metamorphic import check_families
from .questions import plain
from .runner import named_cases
from .session import current

Refused = Mapping[str, tuple[dict[str, Any], Sequence[str]]]
"""By the name of the case: what is changed in a good call, and what the message of the ValueError mentions."""


def contract_tests(
    module: dict[str, Any],
    *,
    agreement: Mapping[Any, int] | None = None,
    defaults: Sequence[Any] = (),
    float32: Sequence[Any] = (),
    refusals: Mapping[Any, tuple[dict[str, Any], Refused]] | None = None,
) -> None:
    """Put the tests of a lesson into the module that calls this.

    Args:
        module: its `globals()`.
        agreement: points of agreeing with the reference where they are not 2; every exercise has that test.
        defaults: exercises whose optional arguments are left out.
        float32: exercises that answer float32 with float32.
        refusals: the arguments of a good call, and what is bad.
    """
    lesson = Path(module["__file__"]).parent.name
    points = {exercise_of(exercise).name: many for exercise, many in (agreement or {}).items()}
    refused = {exercise_of(key).name: key for key in refusals or {}}
    for entry in made_tests(lesson):
        name, exercise = entry.function, Exercise(lesson, entry.exercise)
        if name.endswith(REFUSALS):
            assert refusals is not None
            key = refused[entry.exercise]
            module[name] = _refuses(key, *refusals[key])
        else:
            check = next(check for ending, check in CHECKS.items() if name.endswith(ending))
            module[name] = _test_of(check, exercise)
        module[name].__name__ = name
        if (many := points.get(entry.exercise, 2) if name.endswith(AGREEMENT) else 1) != 1:
            module[name] = pytest.mark.points(many)(module[name])


def _test_of(check: Callable[[Exercise], None], exercise: Exercise) -> Callable[[], None]:
    def test() -> None:
        check(exercise)

    return test


def _agrees(exercise: Exercise) -> None:
    for asked in current().examples(exercise.lesson, exercise.name):
        call(asked).matches_reference()
    if current().thorough:
        check_families(exercise)


def _keeps_defaults(exercise: Exercise) -> None:
    parameters = current().reference.parameters(exercise.lesson, exercise.name)
    required = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
    for asked in _plain_examples(exercise):
        needed = {name: value for name, value in asked.arguments.items() if name in required}
        slopes = tuple(name for name in asked.grad_of if name in needed)
        short = replace(asked, arguments=needed, grad_of=slopes, positional=min(asked.positional, len(needed)))
        # Without its mask, an example may have NaN on real tokens: that says nothing of a default.
        right = current().reference.evaluate(short)
        if not any(bool(tensor.isnan().any()) for tensor in tensors_in(right.value)):
            call(short).matches_reference()


def _keeps_float32(exercise: Exercise) -> None:
    def narrow(tensor: Tensor) -> Tensor:
        return tensor.float() if tensor.dtype == torch.float64 else tensor

    for asked in _plain_examples(exercise):
        call(replace(asked, arguments=copy_plain(asked.arguments, narrow))).matches_reference()


def _refuses(target: Any, good: dict[str, Any], bad: Refused) -> Callable[..., None]:
    @named_cases("changed, mentions", bad)
    def test(changed: dict[str, Any], mentions: Sequence[str]) -> None:
        call(target, **{**good, **changed}).raises(ValueError, mentions)

    return test


CHECKS = {AGREEMENT: _agrees, DEFAULTS: _keeps_defaults, FLOAT32: _keeps_float32}


def _plain_examples(exercise: Exercise) -> Iterator[Request]:
    """Those of the formula: they ask for no gradient of what the reference takes for a constant."""
    for asked in plain(tuple(_examples(exercise))):
        slopes = current().reference.evaluate(asked).gradients
        yield replace(asked, grad_of=tuple(name for name in asked.grad_of if slopes.get(name) is not None))


def _examples(exercise: Exercise) -> Iterator[Request]:
    """The examples that call the function itself: a scenario's arguments are its own."""
    direct = [asked for asked in current().examples(exercise.lesson, exercise.name) if not asked.scenario]
    if not direct:
        raise LookupError(f"{exercise.name} has no example that calls it without a scenario")
    yield from direct
