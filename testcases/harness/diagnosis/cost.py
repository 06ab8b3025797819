"""What a question costs, in calls: the same on each machine."""

import math
import sys
import traceback
from collections.abc import Callable
from types import FrameType

from ..catalog import SOLUTIONS


class TooManyCalls(BaseException):
    """Raised in a solution whose calls are counted."""


def calls_made(run: Callable[[], object], most: float = math.inf) -> int:
    """How many calls of Python or C this leads to. After `most` it ends in the solution's code: nowhere else, since
    what is half imported or half restored would stay so.

    Not counted is how torch.manual_seed writes down the stack, which is deeper under pytest.
    """
    made = in_stack = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal made, in_stack
        if frame.f_code is traceback.format_stack.__code__:
            in_stack += {"call": 1, "return": -1}.get(event, 0)
        made += not in_stack and event in ("call", "c_call")
        if made >= most and frame.f_code.co_filename.startswith(str(SOLUTIONS)):
            raise TooManyCalls

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return made
