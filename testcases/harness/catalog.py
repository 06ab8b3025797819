"""The lessons and their exercises, read from `solutions/` without importing it; which section of a lesson's text
explains an exercise, and which tests are about it."""

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = ROOT / "solutions"
TUTORIAL = ROOT / "tutorial"
CORE = "ppo_by_hand.core"
"""What the lessons are given."""
TESTCASES = ROOT / "testcases"
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
DEFAULT = "The exercises"
REGION, END = "# region solution", "# endregion"
KINDS = {"basic": "the formula alone", "advanced": "what makes it safe, and what always holds"}
CONTRACT = "contract_test"
AGREEMENT = "_agrees_with_the_reference"
"""The end of the names of contract_test.py's tests that ask hard questions, too."""
CAPSTONE = "lesson12"
"""The last lesson of the course: what comes after it is an elective, and counts only where it is asked for."""
PATH = (3, 4, 5, 6, 2, 1, 7, 8, 9, 12, 10, 13, 11)
"""The numbers of the lessons, in the order that the map recommends."""


@dataclass(frozen=True)
class Region:
    """The lines that a student writes."""

    file: str
    """Module of the lesson, without ".py"."""
    exercise: str
    first: int
    """Line of `# region solution`, from 0."""
    last: int
    """Line of `# endregion`."""


@dataclass(frozen=True)
class Lesson:
    """One lesson: its public names, and its exercises."""

    name: str
    """Folder name."""
    names: dict[str, str]
    """Public name -> module that defines it: of the lesson, or "ppo_by_hand.core.config" where it is given."""
    exercises: tuple[str, ...]
    """Dotted names of the functions with a solution region, in the order of the file."""

    @property
    def number(self) -> int:
        return int(self.name[6:8])

    @property
    def short(self) -> str:
        """Such as "lesson04": the marker, and the beginning of a stub's error."""
        return self.name[:8]

    def exercise(self, name: str) -> str:
        """The exercise of this name, with or without its class.

        Raises:
            LookupError: there is none.
        """
        for exercise in self.exercises:
            if name in (exercise, exercise.rpartition(".")[2]):
                return exercise
        raise LookupError(f"{self.name} has no exercise {name!r}; it has {', '.join(self.exercises)}")

    def file_of(self, exercise: str) -> str:
        """Path of the file with an exercise, such as "gae.py"."""
        return self.names.get(exercise.partition(".")[0], "__init__") + ".py"


@cache
def lesson_names() -> tuple[str, ...]:
    """The folder names of all lessons that have a solution."""
    return tuple(sorted(path.parent.name for path in SOLUTIONS.glob("lesson[0-9][0-9]_*/__init__.py")))


def course_lessons() -> tuple[str, ...]:
    """The lessons of the course, up to the capstone."""
    return tuple(name for name in lesson_names() if name[: len(CAPSTONE)] <= CAPSTONE)


def electives() -> tuple[str, ...]:
    """The lessons after the course."""
    return lesson_names()[len(course_lessons()) :]


def on_the_path(lessons: Iterable[str]) -> tuple[str, ...]:
    """These lessons in the order of the map."""
    return tuple(sorted(lessons, key=lambda name: PATH.index(int(name[6:8]))))


@cache
def read_lesson(name: str) -> Lesson:
    """Read one lesson. `name` is a folder name, or a number: "lesson04_gae", "lesson04", "04", "4"."""
    digits = name.removeprefix("lesson").partition("_")[0]
    found = [full for full in lesson_names() if full == name or (digits.isdigit() and int(full[6:8]) == int(digits))]
    if not found:
        raise LookupError(f"there is no lesson {name!r}; there are {', '.join(lesson_names())}")
    folder = SOLUTIONS / found[0]
    names: dict[str, str] = {}
    for node in ast.parse((folder / "__init__.py").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names.update({alias.asname or alias.name: node.module for alias in node.names})
    files = sorted(path.stem for path in folder.glob("*.py"))
    order = [file for file in dict.fromkeys(names.values()) if file in files]
    order += [file for file in files if file not in order]
    exercises = [region.exercise for file in order for region in regions(folder / f"{file}.py")]
    return Lesson(found[0], names, tuple(exercises))


def regions(path: Path) -> list[Region]:
    """The solution regions of one file, each in a function of its own."""
    source = path.read_text("utf-8")
    if REGION not in source:
        return []
    functions = list(functions_in(ast.parse(source)))
    found, first = list[Region](), 0
    for number, line in enumerate(source.splitlines()):
        if line.strip() == REGION:
            first = number
        elif line.strip() == END:
            *_, inside = (name for name, low, high in functions if low <= first + 1 and number + 1 <= high + 1)
            found.append(Region(path.stem, inside, first, number))
    return found


@cache
def region_of(name: str, exercise: str) -> tuple[list[str], Region]:
    """The lines of a lesson's file, and where the exercise's region is in it."""
    path = SOLUTIONS / name / read_lesson(name).file_of(exercise)
    (found,) = [region for region in regions(path) if region.exercise == exercise]
    return path.read_text("utf-8").splitlines(), found


def region_text(name: str, exercise: str) -> str:
    """The reference's text between `# region solution` and `# endregion`, without its indentation."""
    lines, region = region_of(name, exercise)
    return textwrap.dedent("\n".join(lines[region.first + 1 : region.last]))


def functions_in(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Dotted name, first and last line of each function, outer before inner."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + child.name, child.lineno, child.end_lineno or child.lineno
            yield from functions_in(child, prefix + child.name + ".")
        elif isinstance(child, ast.ClassDef):
            yield from functions_in(child, prefix + child.name + ".")


# The texts


def text_of(lesson: str) -> str:
    """A lesson's README; empty while it is not written."""
    path = TUTORIAL / lesson / "README.md"
    return path.read_text("utf-8") if path.is_file() else ""


@cache
def headings(lesson: str) -> tuple[str, ...]:
    """The headings of a lesson's README, without the marks of Markdown; none while it is not written."""
    text = re.sub(r"^ *```.*?^ *```", "", text_of(lesson), flags=re.DOTALL | re.MULTILINE)
    return tuple(re.sub("[`*]", "", found) for found in HEADING.findall(text))


def section_for(lesson: str, exercise: str, report: str = "") -> str:
    """The heading that names an exercise, or its class; of several the one that names what the report names, too."""
    for name in (exercise, exercise.rpartition(".")[2], exercise.partition(".")[0]):
        found = [heading for heading in headings(lesson) if re.search(rf"\b{re.escape(name)}\b", heading)]
        if found:
            others = [set(re.findall(r"\w+_\w+", heading)) - {name} for heading in found]
            said = set(re.findall(r"\w+_\w+", report))
            return next((one for one, named in zip(found, others, strict=True) if named & said), found[0])
    return DEFAULT


def task_of(lesson: str, exercise: str) -> str:
    """The first paragraph of the section that explains an exercise; empty where there is none."""
    blocks = text_of(lesson).split("\n\n")
    heading = section_for(lesson, exercise)
    return next((below for one, below in pairwise(blocks) if HEADING.sub(r"\1", one).replace("`", "") == heading), "")


@cache
def stories(lesson: str) -> dict[str, dict[str, str]]:
    """The real bug behind each suspect, by exercise: `source`, such as "huggingface/trl#1", and `story`."""
    path = TESTCASES / lesson / "stories.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}


# The tests, each of which belongs to the exercise that its name begins with, and is worth 1 point or what its mark says


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
    def node(self) -> str:
        """Such as "lesson04_gae/basic_test.py::test_values"."""
        return f"{self.lesson}/{self.test}"


def is_basic(test: str) -> bool:
    """Whether a test asks for the formula alone: it is in the basic suite, or asks every exercise plain questions."""
    file, _, function = test.rpartition("/")[2].partition("::")
    return not file.startswith("advanced") and not function.endswith(AGREEMENT)


def once_written(stub: str) -> str:
    """What is said of points that wait for a stub: in pytest, and in `make check`."""
    return f"These points count once {stub} is written."


def suites(lesson: str) -> list[str]:
    """The modules of a lesson's suites, basic ones first: "basic_test", or "basic_sampling_test" where it is long."""
    return [path.stem for kind in KINDS for path in sorted((TESTCASES / lesson).glob(f"{kind}*_test.py"))]


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
