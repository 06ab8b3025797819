"""One exercise on plain data: the request, a student's files as modules, the call, what it printed, the outcome.

A grader's worker has these modules without this face: they import each other, and `catalog.lessons`, by module.
"""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .executor import (
        PATIENCE,
        Evaluator,
        LocalEvaluator,
        part_of,
        run,
        scenario_of,
        solutions,
        solutions_changed,
        solutions_with,
        stub_of,
        student,
    )
    from .listening import a_tests_own_calls
    from .messages import (
        Elsewhere,
        Foreign,
        Outcome,
        Record,
        Request,
        StudentError,
        copy_plain,
        fields_of,
        identical,
        leaves,
        tensors_in,
        to_plain,
    )
    from .modules import Missing, ModuleSet
    from .side_effects import GlobalState

__getattr__ = face(__name__, __file__)
