"""Submissions that cheat, break or are broken, the rows of `corpus`: the verdict of each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from testcases.grader.marking import everything
from testcases.grader.status import STATUSES
from testcases.grader.tests.running import TARGET, from_the_start, results, table, tree, workers
from testcases.grader.tests.sandbox.corpus import CASES, Case
from testcases.harness.catalog import ROOT, manifest

SHORT = "call_seconds=1,grace_seconds=0.3,ends=1,memory_mb=512,exercise_seconds=10,import_seconds=0.5"
"""Limits for those who will reach them; what is right needs milliseconds."""
JOBS = 3
"""A dozen of them wait for the end of their time, and need no core for it."""
TOKEN = "a-token-that-no-student-may-see"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("grader-corpus")]
KEYS = (
    "student status system name ids late score max_score secret sandbox folder "
    "content code notes doubts seconds lessons files".split()
)
"""Of a result."""
CORPUS = {one.name: one for one in CASES}


def hand_in(one: Case, folder: Path) -> None:
    """Lay out one submission: its own files, the copies of the course's that it has, and what makes a file large."""
    for path in (*one.written, *one.copies):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    for path, data in one.written.items():
        (folder / path).write_bytes(data)
    for path, source in one.copies.items():
        shutil.copyfile(ROOT / source, folder / path)
    if one.pad:
        with open(folder / TARGET, "ab") as file:
            file.write(b"#" * one.pad)


@pytest.fixture(scope="module")
def batch(bubblewrap: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole corpus, graded in one batch."""
    top = tmp_path_factory.mktemp("corpus")
    folder, out = top / "submissions", top / "out"
    for one in CORPUS.values():
        hand_in(one, folder / one.name)
    before, around = tree(folder), {path.name for path in top.iterdir()}
    options = "--out", str(out), "--jobs", str(JOBS), "--limits", SHORT
    done = from_the_start("testcases.grader", str(folder), *options, SECRET_TOKEN=TOKEN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b[2J" not in done.stdout
    assert tree(folder) == before, "submissions changed"
    assert {path.name for path in top.iterdir()} == around | {"out"}, "files outside OUT"
    assert workers(out) == []
    return out


def test_the_corpus_is_large():
    assert len(CORPUS) >= 170


@pytest.mark.parametrize("name", CORPUS)
def test_verdict(batch: Path, name: str):
    wanted = CORPUS[name]
    result = json.loads((batch / "results" / f"{name}.json").read_text("utf-8"))
    for key, statuses in wanted.statuses.items():
        lesson, _, exercise = key.partition(".")
        found = result["lessons"][lesson]["exercises"][exercise]
        assert found["status"] in statuses, json.dumps(found, indent=1)
    assert result["score"] == wanted.score
    for note in wanted.notes:
        assert any(note in found for found in result["notes"]), result["notes"]


def test_the_results_are_as_the_schema_says(batch: Path):
    asked = everything()
    known = [entry for entry in manifest().values() if entry.lesson in asked.lessons]
    for name, result in results(batch).items():
        assert list(result) == KEYS and result["student"] == name and result["sandbox"] == "bwrap"
        assert result["max_score"] == asked.total
        tests = []
        for lesson in result["lessons"].values():
            assert lesson["score"] == sum(one["score"] for one in lesson["exercises"].values())
            for exercise in lesson["exercises"].values():
                assert set(exercise) == {"score", "max_score", "status", "causes", "read", "told", "tests"}
                assert exercise["status"] in set(STATUSES) - {"grader-error"}, exercise["told"]
                assert (exercise["status"] == "passed") == (exercise["score"] == exercise["max_score"])
                tests += exercise["tests"]
        assert {test["status"] for test in tests} <= set(STATUSES)
        assert len(tests) == len(known) and sum(test["score"] for test in tests) == result["score"]


def test_nothing_of_the_machine_leaks(batch: Path):
    for path in (batch / "results").iterdir():
        text = path.read_text("utf-8")
        assert TOKEN not in text and "root:x:" not in text and "\\u001b" not in text, path.name


def test_the_gradebook_has_a_row_for_each(batch: Path):
    rows = table(batch)
    assert [row["folder"] for row in rows] == sorted(CORPUS)
    assert {row["folder"]: row["points"] for row in rows} == {
        name: str(result["score"]) if result["status"] == "graded" else "" for name, result in results(batch).items()
    }
