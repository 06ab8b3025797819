"""What the tests of a lesson are written in, and how they run."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .anti_gaming import not_earned
    from .asserts import (
        ask,
        assert_equal,
        assert_equals_reference,
        assert_leaves_global_random_alone,
        assert_no_gradient,
        examples_of,
        failure_of,
        gradients,
        scenario,
        value_and_gradients,
    )
    from .checks import Answer, as_argument, as_tensor, call, reference, request
    from .memo import Remembering, Sparing, packed
    from .metamorphic import check_families
    from .mutation_check import mutants, recorded, survivors, version
    from .questions import hard, if_right, plain
    from .runner import Case, cases, cases_of, keep_what_is_loaded, named_cases, points_of
    from .session import Engine, current

__getattr__ = face(__name__, __file__)
