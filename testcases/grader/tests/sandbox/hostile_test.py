"""Submissions that cheat, break or are broken (`hostile`), in one batch: what each gets, and that all get something."""

import json
from pathlib import Path

import pytest

from testcases.grader.status import STATUSES
from testcases.grader.tests.running import from_the_start, put, results, tree, workers
from testcases.grader.tests.sandbox.hostile import CASES, EXERCISES, LESSON

SHORT = "call_seconds=1,grace_seconds=0.3,ends=1,memory_mb=512,exercise_seconds=20,import_seconds=2"
"""Limits for those who will reach them; what is right needs milliseconds."""
JOBS = 5
"""A dozen of them wait for the end of their time, and need no core for it."""
TOKEN = "a-token-that-no-student-may-see"
ASKED = {*(f"{LESSON}.{name}" for name in EXERCISES), *(name for case in CASES.values() for name in case.also)}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def batch(bubblewrap: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("hostile")
    folder, out = top / "submissions", top / "out"
    for name, case in CASES.items():
        put(folder / name, case.written)
    (top / "asked.toml").write_text(f"exercises = {json.dumps(sorted(ASKED))}\n", "utf-8")
    before, around = tree(folder), {path.name for path in top.iterdir()}
    told = "--out", str(out), "--jobs", str(JOBS), "--limits", SHORT, "--assignment", str(top / "asked.toml")
    done = from_the_start("testcases.grader", str(folder), *told, SECRET_TOKEN=TOKEN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b[2J" not in done.stdout
    assert tree(folder) == before, "submissions changed"
    assert {path.name for path in top.iterdir()} == around | {"out"}, "files outside OUT"
    assert workers(out) == []
    return out


@pytest.mark.parametrize("name", CASES)
def test_verdict(batch: Path, name: str):
    case = CASES[name]
    result = json.loads((batch / "results" / f"{name}.json").read_text("utf-8"))
    for key, statuses in case.wanted.items():
        lesson, _, exercise = key.partition(".")
        found = result["lessons"][lesson]["exercises"][exercise]
        assert found["status"] in statuses, json.dumps(found, indent=1)
    assert case.score is None or result["score"] == case.score
    doubts = [f"{one['kind']}: {one['text']}" for one in result["doubts"]]
    for part in filter(None, case.doubts.split("|")):
        assert any(part in doubt for doubt in doubts), doubts


def test_each_has_a_result_of_known_words(batch: Path):
    found = results(batch)
    assert found.keys() == CASES.keys()
    for result in found.values():
        exercises = [one for lesson in result["lessons"].values() for one in lesson["exercises"].values()]
        assert {one["status"] for one in exercises} <= set(STATUSES) - {"grader-error"}
        assert len(exercises) == len(ASKED) and result["score"] == sum(one["score"] for one in exercises)


def test_nothing_of_the_machine_leaks(batch: Path):
    for path in (batch / "results").iterdir():
        text = path.read_text("utf-8")
        assert TOKEN not in text and "root:x:" not in text and "\\u001b" not in text, path.name
