"""Submissions that cheat, break or are broken (`hostile`), one after the other in one sandbox, where nothing that one
does may stay for the next: what each gets, and that each gets something. What is sent is refused, or plain."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from testcases.grader.intake.submissions import HandIn, read_submission
from testcases.grader.marking.assignment import from_dict
from testcases.grader.marking.grade import Grader, Secret
from testcases.grader.sandbox.sandbox import Limits, Sandbox
from testcases.grader.status import GRADER, STATUSES
from testcases.grader.tests.running import put, tree, workers
from testcases.grader.tests.sandbox.hostile import CASES, EXERCISES, LESSON
from testcases.harness.execution import wire
from testcases.harness.execution.messages import Call, Foreign, Outcome, Record, StudentError, leaves
from testcases.harness.suite.asserts import example

SHORT = Limits(call_seconds=0.8, grace_seconds=0.3, ends=1, memory_mb=256, exercise_seconds=10, import_seconds=1.5)
"""For those who will reach them; what is right needs milliseconds."""
TOKEN = "a-token-that-no-student-may-see"
OTHERS = {one for case in CASES.values() for one in case.also}
ASKED = from_dict({"exercises": sorted({*(f"{LESSON}.{one}" for one in EXERCISES), *OTHERS})}).exercises


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


@pytest.mark.slow
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


QUESTION = example(Call(LESSON, "td_errors"), rewards=torch.ones(2, 3), gamma=0.5)
VALUE = {"a": [torch.arange(6.0).reshape(2, 3), 1, 2.5, None, "text"], "b": Record(("x",), (torch.ones(1),))}
SENT = Outcome(value=VALUE, tracked=("a.0",)), Outcome(error=StudentError("raised", "ValueError", "no", ()))
ODD = [None, True, -1, 0, 2**63, 10**30, 1e308, float("nan"), float("inf"), "", "\ud800", "tensor", "x" * 5000, [], {}]
ODD += [[[]] * 50, {"a": {}}, {"tuple": []}, {"tuple": 1}, {"dict": [[1, 2]]}, {"dict": [["a", 1, 2]]}]
ODD += [{"Tensor": 0}, {"Tensor": 1}, {"Tensor": 9}, {"Tensor": "0"}, {"Tensor": 0, "tuple": []}]
ODD += [{"Record": [{"tuple": ["x"]}, {"tuple": []}]}]
ODD += [{"Foreign": ["R", 1]}, {"StudentError": ["raised", "E", "m", {"tuple": []}]}, {"Frame": ["f", 1, "g", "h"]}]
PLAIN = {torch.Tensor, bool, int, float, str, type(None), list, tuple, dict, Foreign}


def changed(node: Any, draw: random.Random) -> Any:
    """A tree with something odd in one place."""
    if draw.random() < 0.2 or not isinstance(node, (dict, list)) or not node:
        return draw.choice(ODD)
    copy: Any = dict(node) if isinstance(node, dict) else list(node)
    place = draw.choice(list(copy)) if isinstance(copy, dict) else draw.randrange(len(copy))
    copy[place] = changed(copy[place], draw)
    return copy


def test_what_is_sent_is_plain_or_refused():
    seen = set()
    for number in range(1000):
        draw = random.Random(number)
        header, body = wire.pack(draw.choice(SENT))
        try:
            found = wire.unpack_outcome(json.loads(json.dumps(changed(header, draw))), bytearray(body), QUESTION)
        except wire.BadFrame:
            seen.add("refused")
            continue
        seen.add("plain")
        assert {type(leaf) for leaf in leaves(found.value)} <= PLAIN
        repr(found).encode("utf-8")
    assert len(seen) == 2
