"""The rooms of the building: which package may use which, and that each is entered by its face."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from ppo_by_hand.faces import names
from testcases.grader.sandbox import staging
from testcases.harness.catalog import ROOT, TESTCASES, lesson_names

ORDER = """
ppo_by_hand.aliases ppo_by_hand.faces ppo_by_hand.core ppo_by_hand.hub tiny_models solutions ppo_by_hand
testcases.doubles
testcases.harness.catalog testcases.harness.execution testcases.harness.oracle testcases.harness.report
testcases.harness.diagnosis.hypotheses testcases.harness.diagnosis.evidence testcases.harness.diagnosis
testcases.harness.suite testcases.harness.student testcases.harness.student.watching testcases.harness
testcases.lessons
testcases.grader.linux testcases.grader.status
testcases.grader.sandbox.guest testcases.grader.sandbox testcases.grader.intake
testcases.grader.marking testcases.grader.reports.marks testcases.grader.reports.formats
testcases.grader.reports.pages testcases.grader.reports
testcases.grader.commands testcases.grader testcases.needs testcases.grader.tests
testcases.course testcases.benchmarks
""".split()
"""From the ground up: a room uses what stands before it, and nothing behind."""
LIMIT = 10
"""Files in a package of the engine or the grader, without its face and its tests."""
MOST_LINES, MOST_TOLD = 40, 25
"""Lines of a function's body, and of its docstring."""
GUESTS = tuple(f"testcases.harness.{package}.{name}" for package, found in staging.ENGINE.items() for name in found)
"""What a grader's worker has; faces are empty there."""


@cache
def modules() -> dict[str, Path]:
    """Name -> file of every module that this course's testing consists of."""
    found = [path for path in TESTCASES.rglob("*.py") if "conformance" not in path.parts]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in found}


@cache
def imports(module: str) -> list[tuple[str, str]]:
    """(module, name) of every `from ... import`, also inside functions; a face has none: it loads what is asked."""
    path = modules()[module]
    found: list[tuple[str, str]] = []
    if path.name == "__init__.py" and "face(__name__" in path.read_text("utf-8"):
        return found
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found += ((origin, alias.name) for alias in node.names)
    return found


def room(module: str) -> str | None:
    """The entry of ORDER that a module belongs to; the lessons' suites are one."""
    for lesson in lesson_names():
        if f"{module}.".startswith(f"testcases.{lesson}."):
            return "testcases.lessons"
    fitting = [name for name in ORDER if f"{module}.".startswith(f"{name}.")]
    return max(fitting, key=len, default=None)


def upward() -> list[str]:
    found = []
    for module in modules():
        own = room(module)
        for origin, name in imports(module):
            whole = f"{origin}.{name}"
            other = room(whole if whole in modules() else origin)
            if own and other and ORDER.index(other) > ORDER.index(own):
                found.append(f"{module} uses {whole}")
    return found


def past_a_face() -> list[str]:
    found = []
    for module in modules():
        own = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
        for origin, name in imports(module):
            package = origin.rpartition(".")[0]
            is_inner = origin in modules() and modules()[origin].name != "__init__.py" and package != own
            is_room = package in ORDER and package.startswith(("testcases.harness.", "testcases.grader."))
            if is_inner and is_room and ".tests" not in package and module not in GUESTS:
                found.append(f"{module}: from {origin} import {name}")
    return found


def test_no_room_uses_one_above_it():
    assert not upward()


def test_no_files_use_one_another():
    """Not within a room either, by way of others or inside a function."""
    used = {module: {f"{origin}.{name}" for origin, name in imports(module)} for module in modules()}
    used = {module: {one if one in used else one.rpartition(".")[0] for one in found} for module, found in used.items()}
    TopologicalSorter({module: (found & used.keys()) - {module} for module, found in used.items()}).prepare()


def test_every_package_is_entered_by_its_face():
    assert not past_a_face()


@pytest.mark.parametrize("package", [name for name in ORDER if ".harness" in name or ".grader" in name])
def test_a_face_offers_what_it_lists_and_a_package_is_small(package: str):
    folder = ROOT / package.replace(".", "/")
    if not folder.is_dir():
        return
    face = folder / "__init__.py"  # tests need none
    is_face = face.is_file() and "face(__name__" in face.read_text("utf-8")
    for name, home in names(face).items() if is_face else ():
        path = folder / f"{home}.py"
        assert home == name or not (folder / f"{name}.py").exists(), f"{package}.{name} is a module and a name"
        assert name in (path if path.exists() else folder / home / "__init__.py").read_text("utf-8")
    files = [path for path in folder.glob("*.py") if not path.name.startswith("__")]
    assert len(files) <= LIMIT, f"{package} has {len(files)} files: make a room of some"


@pytest.mark.parametrize("tree", ["book", "notebooks", "ppo_by_hand", "solutions", "testcases", "tiny_models"])
def test_no_function_is_long(tree: str):
    found = []
    for path in (ROOT / tree).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                doc = ast.get_docstring(node, clean=False) or ""
                body = node.body[bool(doc) :]
                lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                is_long = lines > MOST_LINES or len(doc.splitlines()) > MOST_TOLD
                found += [f"{path}: {node.name}"] if is_long else []
    assert not found
