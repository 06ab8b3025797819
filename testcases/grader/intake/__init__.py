"""From a folder or an export to submissions: archives, names, layouts, copies of one file."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .archives import printable
    from .exports import HandIn, find, find_outside, told
    from .selection import choose, course_files, exercises_in, is_untouched
    from .submissions import Doubt, Submission, close_match, from_folder, read_submission, unreadable

__getattr__ = face(__name__, __file__)
