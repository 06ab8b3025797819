"""The engine of the suites: run one exercise on plain data, compare exactly, and say what is wrong.

from testcases.harness import call
from tutorial.lesson04_gae import td_errors

call(td_errors, rewards=..., values=..., dones=..., grad_of="rewards").equals([1.0, 2.0])
"""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .catalog import worth
    from .execution import Outcome, Request
    from .oracle import Published, Right, Wrong, edit, first, instead
    from .report import CheckFailed
    from .suite import Answer, call, examples_of, named_cases, reference, request, scenario

__getattr__ = face(__name__, __file__)
