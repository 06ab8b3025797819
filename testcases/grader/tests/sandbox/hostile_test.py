"""Submissions that cheat, break or are broken (`hostile`), one after the other in one sandbox, where nothing that one
does may stay for the next: what each gets, and that each gets something."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testcases.grader.intake.submissions import HandIn, read_submission
from testcases.grader.marking.assignment import from_dict
from testcases.grader.marking.grade import Grader, Secret
from testcases.grader.sandbox.sandbox import Limits, Sandbox
from testcases.grader.status import GRADER, STATUSES
from testcases.grader.tests.running import put, tree, workers
from testcases.grader.tests.sandbox.hostile import CASES, EXERCISES, LESSON

SHORT = Limits(call_seconds=1, grace_seconds=0.3, ends=1, memory_mb=256, exercise_seconds=10, import_seconds=2)
"""For those who will reach them; what is right needs milliseconds."""
TOKEN = "a-token-that-no-student-may-see"
OTHERS = {one for case in CASES.values() for one in case.also}
ASKED = from_dict({"exercises": sorted({*(f"{LESSON}.{one}" for one in EXERCISES), *OTHERS})}).exercises
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class SameQuestions(Secret):
    """For everybody, so that the right answers are computed once."""

    def seed(self, lesson: str, content: str) -> int:
        return super().seed(lesson, "")


@pytest.fixture(scope="module")
def sandbox(bubblewrap: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    top = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch, Sandbox("bwrap", SHORT, str(top / "results")) as box:
        patch.setenv("SECRET_TOKEN", TOKEN)
        yield box
    end = time.monotonic() + 10
    while workers(top) and time.monotonic() < end:
        time.sleep(0.05)
    assert workers(top) == [] and tree(top) == {}


@pytest.mark.parametrize("name", CASES)
def test_verdict(sandbox: Sandbox, tmp_path: Path, name: str):
    case = CASES[name]
    submission = read_submission(HandIn(name, name, [(put(tmp_path, case.written), name)]))
    before = tree(tmp_path)
    sandbox.spent = 0.0
    result = Grader(sandbox, SameQuestions("x"), ASKED).grade(submission)
    assert tree(tmp_path) == before and sandbox.failures == 0
    found = {}
    for lesson, marks in result["lessons"].items():
        found |= {f"{lesson}.{exercise}": one for exercise, one in marks["exercises"].items()}
    for exercise, statuses in case.wanted.items():
        assert found[exercise]["status"] in statuses, json.dumps(found[exercise], indent=1)
    assert {one["status"] for one in found.values()} <= set(STATUSES) - {GRADER} and len(found) == len(ASKED)
    assert result["score"] == sum(one["score"] for one in found.values())
    assert case.score is None or result["score"] == case.score
    doubts = [f"{one['kind']}: {one['text']}" for one in result["doubts"]]
    for part in filter(None, case.doubts.split("|")):
        assert any(part in doubt for doubt in doubts), doubts
    told = json.dumps({**result, "files": []})
    assert not [text for text in (TOKEN, "root:x:", "\\u001b") if text in told]
