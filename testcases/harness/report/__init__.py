"""Comparing an answer with the right one, and the text of a failure."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .compare import (
        EXACT,
        Difference,
        Rules,
        alike,
        close,
        first_difference,
        is_rounding,
        nan_in,
        same_outcome,
        same_slope,
    )
    from .failures import (
        MAX_LINES,
        MAX_SHOWN,
        SCREEN,
        CheckFailed,
        Kept,
        NotStarted,
        Waiting,
        clean,
        describe_error,
        printed_lines,
        report,
        show,
        show_argument,
        type_name,
        with_first_line,
    )

__getattr__ = face(__name__, __file__)
