"""A class in parts: who is in which, and what is not joined."""

import json
import sys
from pathlib import Path

import pytest

from testcases.grader.commands import merge
from testcases.grader.intake import HandIn
from testcases.grader.marking import Assignment, Part, Shard, asked_for, of_everybody, secret_of, shard_of, suite_of
from testcases.grader.tests.reports.data import read_csv, result
from testcases.grader.tests.running import tree

pytestmark = pytest.mark.usefixtures("no_figures")
NAMES = ["ann", "bob", "cem", "dan", "eva"]
KEY = secret_of("of the class")
GAE = asked_for(lessons="4", points="20")


def test_everybody_is_in_one_part_that_never_changes():
    hand_ins = [HandIn(f"student {number}") for number in range(400)]
    held = [[one.student for one in hand_ins if Shard(number, 7).holds(one)] for number in range(1, 8)]
    assert sorted(sum(held, [])) == sorted(one.student for one in hand_ins)
    assert max(map(len, held)) < 1.5 * 400 / 7 and min(map(len, held)) > 0.5 * 400 / 7
    assert [Shard(number, 3).holds(HandIn("ann")) for number in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/10001", "1/3/5"])
def test_no_part(text: str):
    with pytest.raises(ValueError, match="SHARD: expected a part and how many there are, such as 3/16, got"):
        shard_of(text)


def write_part(out: Path, number: int, of: int = 2, assignment: Assignment = GAE, **more: str) -> Path:
    """A part as `make check` writes it."""
    folder = out / f"shard-{number}-of-{of}"
    suite = suite_of("course", assignment)
    rows = [[place, name, name] for place, name in enumerate(NAMES) if place % of == number - 1]
    made = dict(secret="s", course="course", suite=suite, sandbox="bwrap", everybody=of_everybody(NAMES)) | more
    (folder / "results").mkdir(parents=True)
    for _, name, file in rows:
        data = result(name, **{key: made[key] for key in ("secret", "suite", "sandbox")})
        (folder / "results" / f"{file}.json").write_text(json.dumps({**data, "seal": KEY.seal(data)}), "utf-8")
    Part(number, of, **made, assignment=assignment.as_dict(), rows=rows).write(folder)
    return folder


def run(monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["make merge", "--out", str(out), "--secret", "of the class", *arguments])
    with pytest.raises(SystemExit) as ended:
        merge.main()
    return int(ended.value.code or 0)


def test_parts_make_the_gradebook_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for out, of in ((tmp_path / "one", 1), (tmp_path / "three", 3)):
        for number in range(1, of + 1):
            write_part(out, number, of)
        assert run(monkeypatch, out) == 0
    written = [
        {name: data for name, data in tree(tmp_path / out).items() if "shard-" not in name} for out in ("one", "three")
    ]
    assert written[0] == written[1] and len(read_csv(tmp_path / "one/gradebook.csv")) == 5
    assert {row["max_score"] for row in read_csv(tmp_path / "three/gradebook.csv")} == {"20"}


def test_other_weights_need_no_other_grading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folders = " ".join(str(write_part(tmp_path / "in", number)) for number in (1, 2))
    assert run(monkeypatch, tmp_path, "--parts", folders, "--lessons", "4", "--points", "10") == 0
    assert {row["max_score"] for row in read_csv(tmp_path / "gradebook.csv")} == {"10"}


@pytest.mark.parametrize(
    "second, says",
    [
        ({"secret": "t"}, "shard-2-of-2: was graded under another secret than"),
        ({"course": "older"}, "was graded with another version of the course, or other limits"),
        ({"assignment": asked_for(lessons="4", points="10")}, "was graded for another assignment"),
        ({"assignment": asked_for(lessons="4 5", points="20")}, "was graded for another assignment"),
        ({"sandbox": "none"}, "was graded with another SANDBOX"),
        ({"everybody": "f"}, "is of another folder of submissions"),
        ({"of": 3}, "is of a class in another number of parts"),
        (None, "missing: shard 2 of 2; grade with SHARD=2/2"),
    ],
)
def test_what_is_no_whole_class_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], second: dict | None, says: str
):
    write_part(tmp_path, 1)
    if second is not None:
        write_part(tmp_path, 2, **second)
    assert run(monkeypatch, tmp_path) == 2
    told = capsys.readouterr().err
    assert says in told and told.startswith("error: ") and told.count("\n") == 1
    assert not (tmp_path / "gradebook.csv").exists()


def test_twice_or_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    first = write_part(tmp_path, 1)
    again = write_part(tmp_path / "again", 1)
    second = write_part(tmp_path, 2)
    assert run(monkeypatch, tmp_path, "--parts", f"{first} {again}") == 2
    assert "shard 1 is there twice" in capsys.readouterr().err
    (second / "results/bob.json").write_text("{}", "utf-8")
    assert run(monkeypatch, tmp_path) == 2
    assert "the result of 'bob' is missing or of another run" in capsys.readouterr().err
    (second / "part.json").unlink()
    assert run(monkeypatch, tmp_path) == 2
    assert "this part is not complete" in capsys.readouterr().err
    (second / "part.json").write_text("[]", "utf-8")
    assert run(monkeypatch, tmp_path) == 2
    assert "of another version of the course" in capsys.readouterr().err


def test_a_result_that_was_edited_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    path = write_part(tmp_path, 1, 1) / "results/bob.json"
    path.write_text(path.read_text("utf-8").replace('"score": 3', '"score": 2'), "utf-8")
    assert run(monkeypatch, tmp_path) == 2
    assert "the result of 'bob' was edited after it was graded" in capsys.readouterr().err


def test_nothing_to_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert run(monkeypatch, tmp_path) == 2
    assert "PARTS: expected folders that make check SHARD= wrote" in capsys.readouterr().err
    write_part(tmp_path, 1, 1)
    assert run(monkeypatch, tmp_path, "--lessons", "5") == 2
    assert "ASSIGNMENT: expected the exercises that the parts were graded for" in capsys.readouterr().err
    assert run(monkeypatch, tmp_path, "--submissions", "nowhere") == 2
