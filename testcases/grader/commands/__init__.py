"""What `make check` prints: the plan, tables, the report."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .reporting import OUT, Given, add_assignment, given_for, refuse, report

__getattr__ = face(__name__, __file__)
