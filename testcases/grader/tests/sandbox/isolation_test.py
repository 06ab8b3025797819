"""One submission cannot hurt another: an honest one beside one that takes all it can has the mark that it has alone."""

from pathlib import Path

import pytest

from testcases.grader.tests.running import LESSON, TARGET, check, results, solved

GREEDY = """import os, signal

def td_errors(rewards, values, dones, gamma=0.99):
    signal.setitimer(signal.ITIMER_REAL, 0)
    for _ in range(58):
        if os.fork() == 0:
            break
    while True:
        pass
"""
SHORT = "call_seconds=0.5,grace_seconds=0.2,deaths=1,import_seconds=0.3"


@pytest.mark.smoke
@pytest.mark.slow
def test_an_honest_submission_beside_a_hostile_one(bubblewrap: None, no_figures: None, tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    solved(folder / "honest", "lesson04_gae")
    (folder / "greedy" / TARGET).parent.mkdir(parents=True)
    (folder / "greedy" / TARGET).write_text(GREEDY, "utf-8")
    done = check(str(folder), "--out", str(out), "--jobs", "2", *LESSON, "--limits", SHORT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(out)
    honest = found["honest"]["lessons"]["lesson04_gae"]
    assert honest["score"] == honest["max_score"]
    assert found["greedy"]["score"] == 0
