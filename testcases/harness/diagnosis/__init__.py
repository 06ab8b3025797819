"""Why an answer is wrong: the cause that explains it, or silence."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .blame import Upstream
    from .causes import Cause, Diagnosis, Listed, Location
    from .explain import Explanation, FirstFailure, NoExplanation, faults
    from .search import LAYERS, bench_of, hypotheses_of

__getattr__ = face(__name__, __file__)
