"""What an answer shows by itself: signs, exceptions, what it depends on, and where it differs."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .dependence import facts, parts_of
    from .exceptions import cause_of_error, names_in
    from .invariants import broken
    from .localize import where
    from .sentences import Evidence, Kind, Part, Place, Sign
    from .signs import Seen
    from .symptoms import cause_shown, is_evidence

__getattr__ = face(__name__, __file__)
