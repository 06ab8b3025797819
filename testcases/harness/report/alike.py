"""Whether two answers are alike, up to rounding: a diagnosis asks it of thousands, and says nothing about the rest."""

from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Foreign, Outcome, fields_of
from .compare import Rules, close, near


def same_outcome(a: Outcome, b: Outcome, values_only: bool = False) -> bool:
    """Whether two pieces of code answered a call alike, up to rounding; with `values_only` gradients may differ."""
    if a.error or b.error:
        return bool(a.error and b.error and (a.error.kind, a.error.type_name) == (b.error.kind, b.error.type_name))
    if values_only:
        return alike(a.value, b.value)
    if (a.changed, a.left_behind) != (b.changed, b.left_behind):
        return False
    if bool(a.tracked) != bool(b.tracked) or a.gradients.keys() != b.gradients.keys():
        return False
    return alike(a.value, b.value) and all(same_slope(a.gradients[name], b.gradients[name]) for name in a.gradients)


def same_slope(a: Any, b: Any) -> bool:
    """Whether two gradients are equal up to rounding; None counts as zeros."""
    a = torch.zeros_like(b) if a is None and isinstance(b, Tensor) else a
    b = torch.zeros_like(a) if b is None and isinstance(a, Tensor) else b
    return alike(a, b)


def alike(a: Any, b: Any) -> bool:
    """Whether two plain values are equal up to rounding."""
    a, b = fields_of(a)[0], fields_of(b)[0]
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        loose = 1e-9 if a.dtype == torch.float64 else 1e-4
        return bool(close(a, b, Rules(loose, loose, equal_nan=True)).all())
    if {type(a), type(b)} <= {int, float}:
        return a == b if type(a) is type(b) is int else (a != a and b != b) or near(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Foreign):
        return a.type_name == b.type_name
    return a == b
