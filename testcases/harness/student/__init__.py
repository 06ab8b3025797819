"""What a student calls beside pytest: progress, hints, reset, the course's own code."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .anecdotes import stories, told
    from .hint import hints
    from .results import Result, Verdict, unpacked, verdict_of

__getattr__ = face(__name__, __file__)
