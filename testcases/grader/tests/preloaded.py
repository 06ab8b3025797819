"""What every run of `make check` imports: the tests fork their runs from a process that has it all (running.py)."""

from testcases.grader import __main__ as _settles_the_threads  # noqa: F401, I001  Before torch.
from testcases.grader.marking import (
    batch,  # noqa: F401
    everything,
    plan,
)
from testcases.grader.reports import gradescope  # noqa: F401

plan(everything().exercises)
