"""What every run of `make check` imports: the tests fork their runs from a process that has it all (running.py)."""

from testcases.grader import __main__ as _settles_the_threads  # noqa: F401, I001  Before torch.
from testcases.grader.marking.assignment import everything
from testcases.grader.marking.grade import plan
from testcases.grader.reports import autograders  # noqa: F401
from testcases.grader.sandbox.sandbox import hidden

plan(everything().exercises)
hidden()  # Which looks through all of the interpreter.
