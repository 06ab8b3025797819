"""The engine of the suites: run one exercise on plain data, compare exactly, and say what is wrong.

from testcases.engine import call
from tutorial.lesson04_gae import td_errors

call(td_errors, rewards=..., values=..., dones=..., grad_of="rewards").equals([1.0, 2.0])
"""

from .answers import Answer, call, examples_of, reference, request, scenario
from .changes import Right, Wrong, edit, first, instead, misconception
from .failures import CheckFailed
from .plain import Outcome, Request
from .points import worth

__all__ = [
    "Answer",
    "CheckFailed",
    "Outcome",
    "Request",
    "scenario",
    "call",
    "examples_of",
    "Right",
    "Wrong",
    "edit",
    "first",
    "instead",
    "misconception",
    "reference",
    "request",
    "worth",
]
