"""What the tests of a lesson are written in, and how they run."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .anti_gaming import not_earned
    from .checks import Answer, as_argument, as_tensor, call, examples_of, reference, request, scenario
    from .generated_tests import contract_tests
    from .memo import Remembering, Sparing, packed
    from .mutation_check import mutants, recorded, survivors, version
    from .questions import hard, if_right, plain
    from .runner import Case, cases, cases_of, keep_what_is_loaded, named_cases
    from .session import Engine, current, shared_reference

__getattr__ = face(__name__, __file__)
