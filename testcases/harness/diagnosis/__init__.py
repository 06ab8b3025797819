"""Why an answer is wrong: the cause that explains it, or silence."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .edits import edits_of
    from .explain import Explanation, FirstFailure, NoExplanation, faults
    from .invariants import broken
    from .mistakes import bench_of
    from .sentences import KEPT, SENTENCES, advice_of, lines_of, remedies_of
    from .upstream import Upstream
    from .values import CHEAP, Diagnosis, Kind, Part, Shows, Sign

__getattr__ = face(__name__, __file__)
