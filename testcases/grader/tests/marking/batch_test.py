"""`make check` over a folder: ended and started again, and asked in a wrong way."""

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from testcases.grader.tests.forks import LONGEST
from testcases.grader.tests.running import ONE, TARGET, check, grade, put, results, solved, start, times, tree, workers
from testcases.grader.tests.sandbox.hostile import CASES
from testcases.harness.catalog import ROOT, SOLUTIONS

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


@pytest.mark.smoke
def test_an_honest_submission_beside_a_hostile_one(bubblewrap: None, tmp_path: Path):
    """One submission cannot hurt another: beside one that takes all it can it has the mark that it has alone."""
    solved(tmp_path / "in/honest", "lesson04_gae")
    put(tmp_path / "in/greedy", CASES["starts-processes"].written)
    limits = "call_seconds=0.5,grace_seconds=0.2,ends=1,import_seconds=0.3"
    told = "--out", str(tmp_path / "out"), "--jobs", "2", *ONE, "--limits", limits
    done = check(str(tmp_path / "in"), *told)
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(tmp_path / "out")
    assert found["honest"]["score"] == found["honest"]["max_score"] and found["greedy"]["score"] == 0


def test_killed_stopped_and_then_left_alone(bubblewrap: None, tmp_path: Path):
    """What is done stays done, and the secret that the first run has made is kept, and told nobody."""
    folder, out = tmp_path / "in", tmp_path / "out"
    for name in ("ann", "bob"):
        solved(folder / name, "lesson04_gae")
    (folder / "bob" / TARGET).write_text("def td_errors(rewards, *rest):\n    return rewards\n", "utf-8")
    kept: dict[str, int] = {}
    for finished, how in enumerate((signal.SIGKILL, signal.SIGINT)):
        said, end = tmp_path / f"said{finished}", time.monotonic() + LONGEST
        process = start(said, str(folder), "--out", str(out), "--jobs", "1", *ONE).process
        while (len(times(out)) < finished or not workers(out)) and time.monotonic() < end:
            time.sleep(0.02)
        assert process.is_alive()
        os.kill(process.pid, how)
        process.join()
        gone = 0  # One that was just being started is seen a moment later, and then finds that nobody asks.
        while gone < 5 and time.monotonic() < end:
            gone = 0 if workers(out) else gone + 1
            time.sleep(0.05)
        assert gone == 5, workers(out)
        told = (said / "stderr").read_text("utf-8")
        assert ("stopped; what has been graded is kept" in told) == (how == signal.SIGINT), told
        assert kept.items() <= times(out).items(), "graded twice"
        kept = times(out)
    done = grade(folder, put(out, {".marks.csv.17.tmp": "folder,stu"}))
    assert done.returncode == 0 and kept.items() <= times(out).items(), "graded twice"
    assert not [*out.glob(".*.tmp")]

    secret = (out / "secret.key").read_text("ascii").strip()
    assert len(bytes.fromhex(secret)) == 16
    told = [data.decode("utf-8", "replace") for name, data in tree(out).items() if name != "secret.key"]
    assert not [text for text in (*told, done.stdout, done.stderr) if secret in text]
    assert [one["score"] == one["max_score"] for one in results(out).values()] == [True, False]
    assert {path.name for path in (out / "results").iterdir()} == {"ann.json", "bob.json"}
    shutil.rmtree(folder / "bob")
    assert grade(folder, put(out, {"secret.key": "another"})).returncode == 0
    assert times(out)["ann.json"] != kept["ann.json"], "another secret, and nothing was graded again"


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["no-such-folder"], "SUBMISSIONS: there is no folder"),
        (["LICENSE"], "unpack it into a folder"),
        (["testcases", "--assignment", "no-such-file"], "ASSIGNMENT: expected a TOML file"),
        ([str(SOLUTIONS)], "one subfolder (or archive) a student"),
        (["."], "OUT: expected a folder outside"),
        ([".", "--jobs", "0"], "JOBS: expected a whole number from 1"),
        ([".", "--sandbox", "docker"], "SANDBOX: expected bwrap or none"),
        (["testcases", "--out", "LICENSE"], "OUT: expected a folder, got a file"),
        (["testcases", "--roster", "no-such-file"], "ROSTER: expected a CSV file"),
        (["testcases", "--points", "many"], "points: expected a number above 0"),
        (["testcases", "--assignment", "LICENSE", "--points", "3"], "LESSONS and POINTS, got both"),
        (["testcases", "--limits", "minutes=3"], "LIMITS: expected such as lesson_seconds=60"),
        (["testcases", "--limits", "call_seconds=nan"], "a number above 0"),
        (["testcases", "--limits", "ends=0"], "a number above 0"),
        (["book"], "Debian and Ubuntu: apt install bubblewrap"),
    ],
)
def test_asked_in_a_wrong_way(tmp_path: Path, arguments: list[str], says: str):
    """Also where there is no sandbox, which is looked for last."""
    out = ROOT / "runs" / "x" if "." in arguments else tmp_path / "out"
    done = check("--out", str(out), *arguments, PATH=str(tmp_path))
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert "graded is kept" not in done.stderr, "nothing has been"
    assert not out.exists()


@pytest.mark.parametrize(
    "given, says", [("SUBMISSION=x LESSON=4", "doesn't know LESSON SUBMISSION"), ("LESSONS=4", "")]
)
def test_make_check_grades_nothing_else_for_a_name_that_it_does_not_know(given: str, says: str):
    outside = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}  # Of `make test-all MARKS=`.
    command = ["make", "-n", "check", *given.split()]
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=True)
    assert says in done.stdout and ("error: make check" in done.stdout) == bool(says), done.stdout


@pytest.mark.parametrize(
    "name, text, says",
    [
        (".lock", "", "another run is at work"),
        ("marks.csv", "a,b\n", "marks.csv: expected the columns folder"),
        ("secret.key", "\n", "OUT: expected a secret"),
        ("results", "", "what has been graded is kept"),  # As good as no room: the folder cannot be made.
    ],
)
def test_what_lies_in_out_stops_a_run_and_is_left_alone(
    bubblewrap: None, tmp_path: Path, name: str, text: str, says: str
):
    (tmp_path / "in").mkdir()
    out = put(tmp_path / "out", {name: text})
    with open(out / name) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = grade(tmp_path / "in", out)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert (out / name).read_text("utf-8") == text


def test_a_disk_that_is_full_is_named(bubblewrap: None, tmp_path: Path):
    (tmp_path / "in").mkdir()
    out = tmp_path / "out"
    run = start(tmp_path, str(tmp_path / "in"), "--out", str(out), "--jobs", "1", *ONE)
    # As good as full, for whatever is larger: the error names no file.
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    done = run.ended()
    told = f"error: {out}: File too large; what has been graded is kept\n"
    assert done.returncode == 2 and done.stderr == told, done.stderr
