"""Breakpoints and the debugger."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .breakpoints import Stops, place

__getattr__ = face(__name__, __file__)
