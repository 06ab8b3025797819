"""A test function belongs to the exercise that its name begins with, and is worth 1 point or what its mark says."""

import re
from dataclasses import dataclass

from .lessons import TESTCASES, lesson_names
from .lessons import lesson as read_lesson

KINDS = {"basic": "the formula alone", "advanced": "what makes it safe, and what always holds"}
CONTRACT = "contract_test"
AGREEMENT = "_agrees_with_the_reference"
"""The end of the names of contract_test.py's tests that ask hard questions, too."""


@dataclass(frozen=True)
class Entry:
    """One test function."""

    lesson: str
    exercise: str
    test: str
    """Such as "basic_test.py::test_values"."""
    points: int
    is_basic: bool
    """Whether it asks for the formula alone."""

    @property
    def function(self) -> str:
        """Such as "test_values"."""
        return self.test.partition("::")[2]

    @property
    def file(self) -> str:
        """The student's file that it is about, such as "gae.py"."""
        return read_lesson(self.lesson).file_of(self.exercise)

    @property
    def path(self) -> str:
        """Such as "lesson04_gae/gae.py"."""
        return f"{self.lesson}/{self.file}"

    @property
    def node(self) -> str:
        """Such as "lesson04_gae/basic_test.py::test_values"."""
        return f"{self.lesson}/{self.test}"


def is_basic(test: str) -> bool:
    """Whether a test asks for the formula alone: it is in the basic suite, or asks every exercise plain questions."""
    file, _, function = test.rpartition("/")[2].partition("::")
    return not file.startswith("advanced") and not function.endswith(AGREEMENT)


def once_written(stub: str) -> str:
    """What is said of points that wait for a stub: in pytest, in `make progress` and in `make check`."""
    return f"These points count once {stub} is written."


def suites(lesson: str) -> list[str]:
    """The modules of a lesson's suites, basic ones first: "basic_test", or "basic_sampling_test" where it is long."""
    return [path.stem for kind in KINDS for path in sorted((TESTCASES / lesson).glob(f"{kind}*_test.py"))]


def exercise_of(lesson: str, test: str) -> str:
    """The exercise whose name a test function begins with, the longest one: "test_value_model_by_hand" tests
    ValueModel.forward, "test_load_checkpoint_is_exact" PPOTrainer.load_checkpoint.

    Raises:
        LookupError: there is none.
    """
    names = {name: exercise for exercise in read_lesson(lesson).exercises for name in names_in_tests(exercise)}
    fitting = [name for name in names if re.match(rf"test_{name}(_|$)", test)]
    if not fitting:
        raise LookupError(
            f"{lesson}: expected test_<exercise>_<what it tests>, got {test}; there are {', '.join(sorted(names))}"
        )
    return names[max(fitting, key=len)]


def names_in_tests(exercise: str) -> list[str]:
    """A method by its own name or with its class; `forward` by its class alone."""
    words = [re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word).lower() for word in exercise.split(".")]
    if words[-1] == "forward":
        return [words[0]]
    return ["_".join(words), words[-1]] if len(words) > 1 else words


def lesson_of(nodeid: str) -> str | None:
    """The lesson to which a pytest node id belongs."""
    folder = split_node(nodeid)[0].partition("/")[0]
    return folder if folder in lesson_names() else None


def split_node(nodeid: str) -> tuple[str, str]:
    """The test function of a pytest node id, and the parameters as one text:

    "testcases/lesson04_gae/basic_test.py::test_x[a]" -> "lesson04_gae/basic_test.py::test_x", "a"
    "testcases/contract_test.py::test_x[lesson04-td_errors-a]" -> "lesson04_gae/contract_test.py::test_td_errors_x", "a"
    """
    path, _, parameters = nodeid.partition("[")
    path, parameters = path.replace("\\", "/").rpartition("testcases/")[2], parameters.rpartition("]")[0]
    if path.startswith(f"{CONTRACT}.py::") and "-" in parameters:  # "NOTSET" is that of a lesson without tables
        lesson, exercise, case = [*parameters.split("-", 2), ""][:3]
        test = f"test_{names_in_tests(exercise)[-1]}{path.partition('::test')[2]}"
        return f"{read_lesson(lesson).name}/{CONTRACT}.py::{test}", case
    return path, parameters
