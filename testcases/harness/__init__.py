"""The engine of the suites: run one exercise on plain data, compare exactly, and say what is wrong.

from testcases.harness import call
from tutorial.lesson04_gae import td_errors

call(td_errors, rewards=..., values=..., dones=..., grad_of="rewards").equals([1.0, 2.0])
"""

from .answers import Answer, adapter, call, examples_of, reference, request
from .failures import CheckFailed
from .misconceptions import misconception
from .plain import Outcome, Request

__all__ = [
    "Answer",
    "CheckFailed",
    "Outcome",
    "Request",
    "adapter",
    "call",
    "examples_of",
    "misconception",
    "reference",
    "request",
]
