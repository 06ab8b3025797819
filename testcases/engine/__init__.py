"""The engine of the suites: run one exercise on plain data, compare exactly, and say what is wrong.

from testcases.engine import call
from tutorial.lesson04_gae import td_errors

call(td_errors, rewards=..., values=..., dones=..., grad_of="rewards").equals([1.0, 2.0])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers import Answer, call, examples_of, reference, request, scenario
    from .changes import Right, Wrong, edit, first, instead
    from .failures import CheckFailed
    from .plain import Outcome, Request
    from .points import worth
    from .runner import named_cases

__all__ = [
    "Answer",
    "CheckFailed",
    "Outcome",
    "Request",
    "Right",
    "Wrong",
    "call",
    "edit",
    "examples_of",
    "first",
    "instead",
    "reference",
    "request",
    "scenario",
    "named_cases",
    "worth",
]


def __getattr__(name: str) -> Any:
    """Each name when it is first asked for: a bar of progress, or a hint, must not wait for torch."""
    for home in ("answers", "changes", "points", "runner") if name in __all__ else ():
        module = importlib.import_module(f".{home}", __name__)
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
