"""The engine of the suites: run one exercise on plain data, compare exactly, and say what is wrong.

from testcases.harness import assert_equal
from tutorial.lesson04_gae import td_errors

assert_equal(td_errors([1.0, 3.0], [2.0, 4.0, 8.0], [0, 0], gamma=0.5), [1.0, 3.0])
"""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .execution import Outcome, Request
    from .oracle import Published, Right, Wrong, edit, first, instead
    from .report import CheckFailed
    from .suite import (
        Answer,
        assert_equal,
        assert_equals_reference,
        assert_leaves_global_random_alone,
        assert_no_gradient,
        call,
        examples_of,
        gradients,
        named_cases,
        reference,
        request,
        scenario,
        value_and_gradients,
    )

__getattr__ = face(__name__, __file__)
