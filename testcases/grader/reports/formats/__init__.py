"""Files for other systems: Gradescope, GitHub Classroom."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .gradescope import toml_of

__getattr__ = face(__name__, __file__)
