"""Pages for instructors and students."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .pages import student_page

__getattr__ = face(__name__, __file__)
