"""`make check` over a folder: killed and started again, regraded, and asked in a wrong way."""

from __future__ import annotations

import fcntl
import json
import shutil
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.tests.running import (
    LESSON,
    LONGEST,
    SECRET,
    TARGET,
    check,
    grade,
    results,
    row,
    solved,
    start,
    table,
    tree,
    without_times,
    workers,
)
from testcases.harness.catalog.lessons import ROOT, SOLUTIONS

pytestmark = pytest.mark.slow


def test_solutions_earn_every_point(bubblewrap: None, tmp_path: Path):
    solved(tmp_path / "in" / "anna", *(path.name for path in SOLUTIONS.glob("lesson*")))
    done = check(str(tmp_path / "in"), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    result = results(tmp_path / "out")["anna"]
    lost = {
        (lesson, name): exercise["told"]
        for lesson, found in result["lessons"].items()
        for name, exercise in found["exercises"].items()
        if exercise["status"] != "passed"
    }
    assert result["score"] == result["max_score"], lost


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A handful of ordinary submissions."""
    folder = tmp_path_factory.mktemp("few")
    for number in range(4):
        solved(folder / f"student{number}", "lesson04_gae")
        path = folder / f"student{number}" / TARGET
        if number % 2:
            source = path.read_text("utf-8").replace(".masked_fill(dones.bool(), 0.0)", "")
            path.write_text(source + f"\n# {number}\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def undisturbed(bubblewrap: None, few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert grade(few, out, SECRET=SECRET).returncode == 0
    return out


def test_a_wrong_answer_has_its_cause(undisturbed: Path):
    lesson = results(undisturbed)["student1"]["lessons"]["lesson04_gae"]
    exercise = lesson["exercises"]["td_errors"]
    assert exercise["status"] == "wrong" and 0 < lesson["score"] < lesson["max_score"]
    assert exercise["causes"] and exercise["read"] and "Likely cause" not in exercise["told"]


def test_killed_again_and_again_and_then_left_alone(few: Path, undisturbed: Path, tmp_path: Path):
    out = tmp_path / "out"
    kept: dict[str, int] = {}
    for finished in range(3):
        _kill(start(tmp_path, str(few), "--out", str(out), "--jobs", "2", *LESSON, SECRET=SECRET), out, finished)
        assert kept.items() <= _times(out).items(), "graded twice"
        kept = _times(out)
    assert grade(few, out, SECRET=SECRET).returncode == 0
    assert without_times(out) == without_times(undisturbed)
    assert table(out) == table(undisturbed)
    assert {path.name for path in out.iterdir()} == {path.name for path in undisturbed.iterdir()}
    assert kept.items() <= _times(out).items(), "graded twice"


def test_dry_says_what_would_be_graded(few: Path, tmp_path: Path):
    done = check(str(few), "--out", str(tmp_path / "out"), "--dry", "1", "--lessons", "4", "--points", "20")
    assert done.returncode == 0 and "4 found (4 folder), 4 to grade" in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.startswith("student")]) == 4
    assert "PPO by Hand: 5 exercises, 20 points: lesson04_gae" in done.stdout and not (tmp_path / "out").exists()


def _kill(process: Any, out: Path, finished: int) -> None:
    """When so many are done and the next are at work."""
    end = time.monotonic() + LONGEST
    while (len(_times(out)) < finished or not workers(out)) and time.monotonic() < end:
        time.sleep(0.02)
    assert process.is_alive()
    process.kill()
    process.join()
    end = time.monotonic() + LONGEST
    while workers(out) and time.monotonic() < end:
        time.sleep(0.05)
    assert workers(out) == []


def _times(out: Path) -> dict[str, int]:
    """When each results file was written."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}


def test_a_regrade_touches_only_what_changed(few: Path, undisturbed: Path, tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(few, folder)
    shutil.copytree(undisturbed, out)
    before = _times(out)
    (folder / "student2" / TARGET).write_text("", "utf-8")
    (out / "results" / "student3.json").write_text('{"student": "stu', "utf-8")
    assert grade(folder, out, SECRET=SECRET).returncode == 0
    after = _times(out)
    assert {name for name in after if after[name] != before[name]} == {"student2.json", "student3.json"}
    second = row(out, "student2")
    assert (second["points"], second["flags"]) == ("0", "does not load | other points than before")
    assert without_times(out)["student3"] == without_times(undisturbed)["student3"]


def test_the_secret_is_made_kept_and_told_nobody(few: Path, undisturbed: Path, tmp_path: Path):
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    done = grade(few, out)
    assert done.returncode == 0
    kept = out / "secret.key"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and len(bytes.fromhex(kept.read_text("ascii"))) == 16
    ids = {result["secret"] for result in (*results(out).values(), *results(undisturbed).values())}
    assert len(ids) == 2, "another secret, and nothing was graded again"
    written = {name: data for name, data in tree(out).items() if name != kept.name}
    told = "".join(data.decode("utf-8", "replace") for data in written.values()) + done.stdout + done.stderr
    assert kept.read_text("ascii").strip() not in told and SECRET not in told
    before = tree(out)
    assert grade(few, out).returncode == 0
    after = tree(out)
    assert after["secret.key"] == before["secret.key"] and results(out) == {
        Path(name).stem: json.loads(data) for name, data in before.items() if name.startswith("results/")
    }
    kept.write_text("", "ascii")
    assert "SECRET: expected a secret" in grade(few, out).stderr


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["no-such-folder"], "there is no folder"),
        ([str(SOLUTIONS)], "one subfolder (or archive) a student"),
        (["."], "OUT: expected a folder outside"),
        ([".", "--jobs", "0"], "JOBS: expected a whole number from 1"),
        ([".", "--sandbox", "docker"], "SANDBOX: expected bwrap or none"),
        (["testcases", "--roster", "no-such-file"], "ROSTER: expected a CSV file"),
        (["testcases", "--roster", "LICENSE"], "LICENSE: expected columns such as name"),
        (["testcases", "--lessons", "14"], "lessons: there is no lesson or exercise '14'"),
        (["testcases", "--assignment", "no-such-file"], "No such file"),
        (["testcases", "--limits", "minutes=3"], "LIMITS: expected such as lesson_seconds=60"),
        (["testcases", "--limits", "call_seconds=many"], "got 'call_seconds=many'"),
        (["book"], "Debian and Ubuntu: apt install bubblewrap"),
    ],
)
def test_asked_in_a_wrong_way(tmp_path: Path, arguments: list[str], says: str):
    """Also where there is no sandbox, which is looked for last."""
    out = ROOT / "runs" / "x" if arguments == ["."] else tmp_path / "out"
    done = check(*arguments, "--out", str(out), PATH=str(tmp_path))
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not out.exists()


GREEDY = """import os, signal

def td_errors(rewards, values, dones, gamma=0.99):
    signal.setitimer(signal.ITIMER_REAL, 0)
    for _ in range(58):
        if os.fork() == 0:
            break
    while True:
        pass
"""
SHORT = "call_seconds=0.5,grace_seconds=0.2,ends=1,import_seconds=0.3"


@pytest.mark.smoke
def test_an_honest_submission_beside_a_hostile_one(bubblewrap: None, tmp_path: Path):
    """One submission cannot hurt another: beside one that takes all it can it has the mark that it has alone."""
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


def test_two_runs_at_once_an_out_that_is_a_file_and_a_full_disk(bubblewrap: None, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "file").touch()
    done = grade(tmp_path / "in", tmp_path / "file")
    assert done.returncode == 2 and done.stderr.startswith("error: OUT: expected a folder, got a file")
    (tmp_path / "out").mkdir()
    with open(tmp_path / "out" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = grade(tmp_path / "in", tmp_path / "out")
    assert done.returncode == 2 and "another run is at work" in done.stderr
    assert grade(tmp_path / "in", tmp_path / "none").returncode == 0 and table(tmp_path / "none") == []
    (tmp_path / "out" / "results").touch()  # As good as no room: the folder cannot be made.
    done = grade(tmp_path / "in", tmp_path / "out")
    assert done.returncode == 2 and "what has been graded is kept" in done.stderr and done.stderr.count("\n") == 1


def test_what_a_run_writes_is_for_its_owner_alone_and_a_bad_table_stops_it(
    bubblewrap: None, few: Path, undisturbed: Path
):
    for path in (undisturbed, *undisturbed.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    (undisturbed / "marks.csv").rename(undisturbed / "kept.csv")
    (undisturbed / "marks.csv").write_text("a,b\n", "utf-8")
    done = grade(few, undisturbed, SECRET=SECRET)
    assert done.returncode == 2 and "marks.csv: expected the columns folder" in done.stderr
    assert (undisturbed / "marks.csv").read_text("utf-8") == "a,b\n"
    (undisturbed / "kept.csv").replace(undisturbed / "marks.csv")
