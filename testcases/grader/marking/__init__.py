"""From submissions to results: the assignment, marks, what is stored."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .assignment import TITLE, Assignment, asked_for, course_points, everything, from_dict, from_file
    from .batch import Batch, grade_folder, grade_one
    from .grade import Grader, plan
    from .secret import FILE, Secret, kept_in, new, secret_of
    from .store import has_grader_error, read_result

__getattr__ = face(__name__, __file__)
