"""Points: a test function belongs to the exercise that its name begins with, and is worth 1 or what its mark says.

Read from the text of the suites: knowing how far a student is must not cost an import of torch. What a suite that runs
says of its tests' `points` is the same (`harness_test.py` holds it).
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from . import handles as handles  # So `tutorial` is what suites see.
from .lessons import TESTCASES, lesson_names
from .lessons import lesson as read_lesson

KINDS = {"basic": "the formula alone", "advanced": "what makes it safe, and what always holds"}
CONTRACT = "contract_test"
# What the names of the tests end in that contract_test.py makes of a lesson's tables.
AGREEMENT, DEFAULTS = "_agrees_with_the_reference", "_keeps_its_defaults"
FLOAT32, REFUSALS = "_keeps_float32", "_refuses_bad_arguments"


@dataclass(frozen=True)
class Entry:
    """One test function."""

    lesson: str
    exercise: str
    test: str
    """Such as "basic_test.py::test_values"."""
    points: int

    @property
    def function(self) -> str:
        """Such as "test_values"."""
        return self.test.partition("::")[2]

    @property
    def is_basic(self) -> bool:
        """Whether it asks for the formula alone."""
        return is_basic(self.test)

    @property
    def node(self) -> str:
        """Such as "lesson04_gae/basic_test.py::test_values"."""
        return f"{self.lesson}/{self.test}"


def is_basic(test: str) -> bool:
    """Whether a test asks for the formula alone: it is in the basic suite, or the engine makes it of plain questions.
    Agreement with the reference asks hard ones, too, and to keep float32 is a matter of precision."""
    file, _, function = test.rpartition("/")[2].partition("::")
    return not file.startswith("advanced") and not function.endswith((AGREEMENT, FLOAT32))


def once_written(stub: str) -> str:
    """What is said of points that wait for a stub: in pytest, in `make progress` and in `make check`."""
    return f"These points count once {stub} is written."


def manifest() -> Mapping[str, Entry]:
    """All entries by node, lesson by lesson.

    Raises:
        LookupError: a test function's name begins with no exercise of its lesson.
    """
    return {node: entry for lesson in lesson_names() for node, entry in _by_node(lesson).items()}


@cache
def _by_node(lesson: str) -> Mapping[str, Entry]:
    """Node -> entry of one lesson, exercise by exercise, the basic suite first."""
    order = read_lesson(lesson).exercises
    entries = [*(entry for suite in suites(lesson) for entry in _entries_of(lesson, suite)), *made_tests(lesson)]
    return {entry.node: entry for entry in sorted(entries, key=lambda entry: order.index(entry.exercise))}


def suites(lesson: str) -> list[str]:
    """The modules of a lesson's suites, basic ones first: "basic_test", or "basic_sampling_test" where it is long."""
    kinds = ("basic", "advanced")
    return [path.stem for kind in kinds for path in sorted((TESTCASES / lesson).glob(f"{kind}*_test.py"))]


def _entries_of(lesson: str, suite: str) -> Iterator[Entry]:
    for node in _body(lesson, suite):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Entry(lesson, exercise_of(lesson, node.name), f"{suite}.py::{node.name}", _worth_of(node))


def _body(lesson: str, module: str) -> list[ast.stmt]:
    return ast.parse((TESTCASES / lesson / f"{module}.py").read_text("utf-8")).body


@cache
def made_tests(lesson: str) -> tuple[Entry, ...]:
    """What contract_test.py asks of a lesson, by its contract.py, where no suite has such a test of its own."""
    if not (TESTCASES / lesson / "contract.py").is_file():
        return ()
    tables = {
        ast.unparse(node.targets[0]): node.value for node in _body(lesson, "contract") if isinstance(node, ast.Assign)
    }
    wanted = [(exercise, AGREEMENT) for exercise in read_lesson(lesson).exercises]
    for table, ending in (("DEFAULTS", DEFAULTS), ("FLOAT32", FLOAT32), ("REFUSALS", REFUSALS)):
        wanted += [(exercise, ending) for exercise in _exercises_in(tables.get(table))]
    unusual = tables.get("AGREEMENT", ast.Dict([], []))
    assert isinstance(unusual, ast.Dict)
    points = dict(zip(_exercises_in(unusual), map(ast.literal_eval, unusual.values), strict=True))
    written = {entry.function for suite in suites(lesson) for entry in _entries_of(lesson, suite)}
    made = []
    for exercise, ending in wanted:
        test = f"test_{_test_names(exercise)[-1]}{ending}"
        if test not in written:
            worth = points.get(exercise, 2) if ending == AGREEMENT else 1
            made.append(Entry(lesson, exercise, f"{CONTRACT}.py::{test}", worth))
    return tuple(made)


def _exercises_in(table: ast.expr | None) -> list[str]:
    """The exercises in a list, or the keys of a dict: compute_gae, ValueModel.forward, scenario("...", of=freeze)."""
    keys = table.keys if isinstance(table, ast.Dict) else table.elts if isinstance(table, (ast.List, ast.Tuple)) else []
    return [ast.unparse(key.keywords[0].value if isinstance(key, ast.Call) else key) for key in keys if key]


def _worth_of(node: ast.FunctionDef) -> int:
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.points":
            return ast.literal_eval(mark.args[0])
    return 1


def exercise_of(lesson: str, test: str) -> str:
    """The exercise whose name a test function begins with, the longest one: "test_value_model_by_hand" tests
    ValueModel.forward, "test_load_checkpoint_is_exact" PPOTrainer.load_checkpoint.

    Raises:
        LookupError: there is none.
    """
    names = {name: exercise for exercise in read_lesson(lesson).exercises for name in _test_names(exercise)}
    fitting = [name for name in names if re.match(rf"test_{name}(_|$)", test)]
    if not fitting:
        raise LookupError(
            f"{lesson}: expected test_<exercise>_<what it tests>, got {test}; there are {', '.join(sorted(names))}"
        )
    return names[max(fitting, key=len)]


def _test_names(exercise: str) -> list[str]:
    """A method by its own name or with its class; `forward` by its class alone."""
    words = [re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word).lower() for word in exercise.split(".")]
    if words[-1] == "forward":
        return [words[0]]
    return ["_".join(words), words[-1]] if len(words) > 1 else words


def entries(lesson: str) -> list[Entry]:
    return list(_by_node(lesson).values())


def entry_of(nodeid: str) -> Entry | None:
    """The entry of a pytest node id, with or without its parameters."""
    lesson = lesson_of(nodeid)
    return _by_node(lesson).get(function_of(nodeid)) if lesson else None


def lesson_of(nodeid: str) -> str | None:
    """The lesson to which a pytest node id belongs."""
    folder = function_of(nodeid).partition("/")[0]
    return folder if folder in lesson_names() else None


def function_of(nodeid: str) -> str:
    """ "testcases/lesson04_gae/basic_test.py::test_x[a]" -> "lesson04_gae/basic_test.py::test_x", and
    "testcases/contract_test.py::test_x[lesson04-compute_gae-a]" -> "lesson04_gae/contract_test.py::test_compute_gae_x".
    """
    return _parts_of(nodeid)[0]


def case_of(nodeid: str) -> str:
    """The parameters of a node id, as one text: "a"."""
    return _parts_of(nodeid)[1]


def _parts_of(nodeid: str) -> tuple[str, str]:
    path, _, parameters = nodeid.partition("[")
    path, parameters = path.replace("\\", "/").rpartition("testcases/")[2], parameters.rpartition("]")[0]
    if path.startswith(f"{CONTRACT}.py::") and "-" in parameters:  # "NOTSET" is that of a lesson without tables
        lesson, exercise, case = [*parameters.split("-", 2), ""][:3]
        test = f"test_{_test_names(exercise)[-1]}{path.partition('::test')[2]}"
        return f"{read_lesson(lesson).name}/{CONTRACT}.py::{test}", case
    return path, parameters
