"""What a later run keeps and what it changes, and the secret of fresh inputs."""

from pathlib import Path
from typing import Any

import pytest

from testcases.grader.intake import Submission
from testcases.grader.marking import Batch, asked_for, changes, secret, secret_of
from testcases.grader.sandbox import Limits, staging
from testcases.grader.tests.reports.data import exercise, put, read_csv, report, result

KEY = secret_of("of the class")


def marked(student: str, score: int, **more: Any) -> dict[str, Any]:
    return result(student, {"td_errors": exercise(score, 2)}, secret=KEY.id, **more)


def test_a_regrade_tells_what_changed_and_why(tmp_path: Path):
    old, new = marked("ann", 1, content="a"), marked("ann", 2, content="a")
    new["lessons"]["lesson04_gae"]["suite"] = "newer"
    (row,) = changes(old, new)
    why = "the lesson's suite, or what it uses, has changed"
    assert row == {"exercise": "lesson04_gae.td_errors", "old": 1, "new": 2, "why": why}
    assert changes(old, {**old, "content": "b"}) == [] and changes(old, marked("ann", 2))[0]["why"] == "another hand-in"
    report(put(tmp_path, {**new, "changes": [row]}))
    assert [one["why"] for one in read_csv(tmp_path / "changes.csv")] == [row["why"]]


def test_what_nothing_has_changed_for_is_kept(monkeypatch: pytest.MonkeyPatch):
    """A change of lesson 5's suite leaves lesson 4's marks; somebody may ask for one again."""
    submission = Submission("ann")
    monkeypatch.setattr(staging, "fingerprint_of", lambda lesson: f"{lesson} as it was")
    batch = Batch("bwrap", KEY, 1, Limits(), asked_for(lessons="4 5"))
    marks = {"td_errors": exercise()}
    lessons = {name: {"exercises": marks, "suite": suite} for name, suite in batch.suites.items()}
    known = {"content": submission.content, "secret": KEY.id, "sandbox": "bwrap", "lessons": lessons}
    known = {**known, "suite": batch.suite}
    assert batch.fits(known, submission)
    assert batch.kept({**known, "content": "other"}, submission) == {}
    for edited in ([], {"lesson04_gae": 3}, {"lesson04_gae": {"exercises": [1]}}):
        assert batch.kept({**known, "lessons": edited}, submission) == {}
    monkeypatch.setattr(staging, "fingerprint_of", lambda lesson: f"{lesson} {'as it was' if '4' in lesson else 'new'}")
    later = Batch("bwrap", KEY, 1, Limits(), asked_for(lessons="4 5"))
    assert list(later.kept(known, submission)) == ["lesson04_gae"] and not later.fits(known, submission)
    for again in ("ann", "td_errors", "lesson04_gae", "lesson04_gae.td_errors"):
        batch.regrade = again
        assert "lesson04_gae" not in batch.kept(known, submission)


def test_a_fingerprint_holds_what_a_lesson_uses():
    assert staging._needed("lesson01_masked_sequences") == {"lesson01_masked_sequences"}
    assert {"lesson04_gae", "lesson01_masked_sequences"} <= staging._needed("lesson09_ppo_trainer")
    assert "lesson12_capstone" not in staging._needed("lesson09_ppo_trainer")


def test_seeds_are_wide_and_differ_by_secret_lesson_and_submission():
    one, other = secret.secret_of("a"), secret.new()
    seeds = {kind.seed(lesson, content) for kind in (one, other) for lesson in "45" for content in ("x", "y")}
    assert len(seeds) == 8 and all(2**90 < seed < 2**128 for seed in seeds)
    assert one.seed("4", "x") == secret.secret_of(" a\n").seed("4", "x")


def test_nothing_that_is_shown_holds_the_secret():
    one = secret.secret_of("a")
    assert "_key" not in repr(one) and one._key.hex() not in one.id
    assert one.id == secret.secret_of("a").id != secret.secret_of("b").id and len(one.id) == 16


def test_it_is_made_once(tmp_path):
    first = secret.kept_in(tmp_path)
    assert secret.kept_in(tmp_path) == first != secret.new()
    assert [path.name for path in tmp_path.iterdir()] == [secret.FILE]
    assert (tmp_path / secret.FILE).stat().st_mode & 0o777 == 0o600
