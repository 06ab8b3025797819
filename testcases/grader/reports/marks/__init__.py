"""The marks of a class as rows: the sheet, the roster, overrides, tables."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .adjustments import Class
    from .overrides import Override
    from .sheets import ExerciseMarks, File, LessonMarks, MarkSheet, Raw, only
    from .tables import points
    from .text import cell, clean, clean_lines, slug

__getattr__ = face(__name__, __file__)
