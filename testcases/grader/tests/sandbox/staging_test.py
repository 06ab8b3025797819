"""What a worker may see, and where there is none."""

import re
import subprocess
from pathlib import Path

import pytest

from testcases.grader.sandbox import sandbox as box
from testcases.grader.sandbox import staging
from testcases.harness.catalog import ROOT, SOLUTIONS, TESTCASES, lesson_names, regions


def plain(lines: list[str]) -> str:
    """Without indentation, empty lines and comments."""
    return "\n".join(line.strip() for line in lines if line.strip() and not line.strip().startswith("#"))


def bodies(lesson: str) -> dict[str, str]:
    """Exercise -> what a student writes there."""
    found = {}
    for path in sorted((SOLUTIONS / lesson).glob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        found |= {region.exercise: plain(lines[region.first + 1 : region.last]) for region in regions(path)}
    return found


@pytest.mark.parametrize("lesson", lesson_names())
def test_a_tree_holds_no_suite_no_answer_and_no_body_of_its_own_exercises(lesson: str):
    allowed = {"__init__.py", *(f"{name.rpartition('/')[2]}.py" for name in staging.ENGINE)}
    allowed |= {path.name for path in (TESTCASES / "harness" / "doubles").glob("*.py")}
    given = {f"ppo_by_hand/core/{path.name}" for path in (ROOT / "ppo_by_hand/core").glob("*.py")}
    for exercise, body in bodies(lesson).items():
        tree = staging.tree(lesson, exercise)
        texts = {path: data.decode() for path, data in tree.items() if path.endswith(".py")}
        suites = {path.rpartition("/")[2] for path in texts if path.startswith("testcases/")}
        assert {name for name in suites if not name.startswith("scenarios")} <= allowed
        inits = [text for path, text in texts.items() if re.fullmatch(r"testcases/(harness/)?\w+/__init__.py", path)]
        assert "".join(inits) == (TESTCASES / "harness/doubles/__init__.py").read_text("utf-8")
        assert {path for path in texts if path.startswith("ppo_by_hand/")} == {*given, "ppo_by_hand/__init__.py"}
        holders = [path for path, text in texts.items() if body in plain(text.splitlines())]
        assert not holders, exercise
        later = [path for path in texts if path.startswith("solutions/lesson") and path.split("/")[1] > lesson]
        assert not [path for path in later if "# region solution" in texts[path]]


MATTERS = (
    "solutions/lesson04_gae/gae.py testcases/lesson10_bug_hunt/bank.json testcases/harness/report/compare.py "
    "testcases/grader/marking/grade.py tiny_models/language.py ppo_by_hand/core/shapes.py"
).split()


@pytest.mark.parametrize("path", [*MATTERS, "testcases/grader/reports/pages.py", "testcases/course/stubs.py"])
def test_the_fingerprint_covers_what_a_mark_depends_on(path: str, monkeypatch: pytest.MonkeyPatch):
    before, read = staging.fingerprint(), Path.read_bytes
    assert (ROOT / path).exists()
    monkeypatch.setattr(Path, "read_bytes", lambda file: read(file) + b" " * (file == ROOT / path))
    assert (staging.fingerprint.__wrapped__() != before) == (path in MATTERS)


@pytest.mark.parametrize(
    "where, inside",
    [
        ("lib/python3.11/site-packages/ppo_by_hand", "."),
        (".venv/src/ppo-by-hand/solutions", lesson_names()[0]),
        ("src/ppo/notebooks", "."),
    ],
)
def test_an_installed_course_is_not_seen(
    bubblewrap: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, inside: str
):
    place = tmp_path / where
    (place / inside).mkdir(parents=True)
    (place / "gae.py").write_text("the solution", "utf-8")
    for folder in (place, *place.parents):
        if "pytest-of-" in str(folder):  # Those that pytest has made for its own user.
            folder.chmod(0o755)
    (tmp_path / "src/ppo").mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(box, "ROOT", tmp_path / "src/ppo")  # Where the course itself may lie.
    folders = box.interpreter_folders()
    monkeypatch.setattr(box, "interpreter_folders", lambda: [*folders, str(tmp_path)])
    assert box.hidden() == [str(place)]
    assert box.run_in_it(["cat", f"{place}/gae.py"]).returncode != 0
    monkeypatch.setattr(box, "hidden", list)
    assert box.run_in_it(["cat", f"{place}/gae.py"]).stdout == "the solution"


@pytest.mark.parametrize("kind", ["bwrap", "none"])
def test_on_another_system_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, kind: str):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(box.NoSandbox, match="make check needs Linux, or a Linux container"):
        box.check_sandbox(kind)


def test_where_no_namespaces_are_allowed_it_says_how_to_allow_them(bubblewrap: None, monkeypatch: pytest.MonkeyPatch):
    failed = subprocess.CompletedProcess([], 1, "", "bwrap: Operation not permitted")
    monkeypatch.setattr(box, "run_in_it", lambda *of: failed)
    told = r"Operation not permitted\)\. In a container, run it as an ordinary user, with docker run --security-opt"
    with pytest.raises(box.NoSandbox, match=told):
        box.check_bubblewrap.__wrapped__()
