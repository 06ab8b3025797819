"""What every run of `make check` imports: the tests fork their runs from a process that has it all (running.py)."""

from __future__ import annotations

from testcases.grader import __main__ as _settles_the_threads  # noqa: F401, I001  Before torch.
from testcases.grader import batch  # noqa: F401
from testcases.grader.assignment import everything
from testcases.grader.grade import plan
from testcases.grader.reports import gradescope, junit, pages, roster, sheets, similarity, tables  # noqa: F401

plan(everything().exercises)
