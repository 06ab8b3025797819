"""What of a submission is graded: a tutorial/, else lesson folders, else file names, never the solutions."""

from pathlib import Path

import pytest

from testcases.grader.intake.exports import find
from testcases.grader.intake.selection import beside, choose, course_files, exercises_in, is_untouched
from testcases.grader.intake.submissions import Submission, read_submission
from testcases.grader.status import NEAR
from testcases.grader.tests.running import put
from testcases.harness.catalog import TUTORIAL
from testcases.harness.suite.asserts import named

GAE, LOSS = "lesson04_gae/gae.py", "lesson05_ppo_loss/ppo_loss.py"
WORK, OTHER = b"def f(): ...\n", b"another = 1\n"
MARKED = b"def f():\n    # region solution\r    return 1\n    # endregion\n"
STUB = b"def f():\n" + b"".join(
    f'    raise NotImplementedError("lesson04: {one}")\n'.encode() for one in exercises_in(GAE)
)
TEXTS = {"!": MARKED, "?": STUB, "*": OTHER}
"""By the sign behind a name: with the marks of a solution, as handed out, another text of the same file."""
COURSE = "Makefile README.md testcases/points.toml tiny_models/vocab.py"


def solved(folder: str) -> str:
    """The course's files there, with the marks of solutions."""
    return " ".join(f"{folder}{path}!" for path in course_files())


@named(
    "names, taken, other",
    {
        "nested": (f"homework/final/{GAE}", f"homework/final/{GAE}", ""),
        "nearest": (f"z/tutorial/{GAE} a/b/tutorial/{GAE}", f"z/tutorial/{GAE}", ""),
        "tutorial-first": (f"{GAE} a/b/tutorial/{GAE}", f"a/b/tutorial/{GAE}", ""),
        "parts-of-one-work": (f"w1/{GAE} w2/{LOSS}", f"w1/{GAE} w2/{LOSS}", ""),
        "loose": ("gae.py x/ppo_loss.py", "gae.py x/ppo_loss.py", ""),
        "loose-after-folders": (f"{GAE} gae.py", GAE, ""),
        "marks-alone-are-the-students": (f"{GAE}!", GAE, ""),
        "whole-repository": (f"{COURSE} {solved('solutions/')} tutorial/{LOSS}", f"tutorial/{LOSS}", ""),
        "solutions-at-the-top": (f"{solved('')} z/tutorial/{LOSS}", f"z/tutorial/{LOSS}", ""),
        "solutions-inside": (f"{solved('tutorial/solutions/')} tutorial/{LOSS}", f"tutorial/{LOSS}", ""),
        "nothing-but-solutions": (solved("my/Solutions/"), "", ""),
        "a-repository-without-tutorial": (f"{COURSE} {solved('answers/')}", "", ""),
        "renamed-beside-a-stub": (f"{solved('answers/')} tutorial/{GAE}?", f"tutorial/{GAE}", ""),
        "loose-files-of-the-course": ("testcases/gae.py solutions/gae.py! ppo_by_hand/core/gae.py", "", ""),
        "copies-in-order": (f"hw_v1/{GAE} hw_v2/{GAE}*", f"hw_v1/{GAE}", f"hw_v2/{GAE} has another"),
        "the-same-twice": (f"a/{GAE} b/{GAE}", f"a/{GAE}", ""),
        "a-stub-never-wins": (f"old/tutorial/{GAE}? x/y/tutorial/{GAE}", f"x/y/tutorial/{GAE}", ""),
        "loose-beside-a-stub": (f"tutorial/{GAE}? gae.py", "gae.py", ""),
        "capitals": (f"TUTORIAL/{GAE}* tutorial/{GAE}", f"tutorial/{GAE}", f"TUTORIAL/{GAE} has another"),
        "nothing-but-stubs": (f"a/{GAE}? b/{GAE}?", f"a/{GAE}", ""),
    },
)
def test_the_students_work_is_taken_and_nothing_else(names: str, taken: str, other: str):
    data = {name.rstrip("!?*"): TEXTS.get(name[-1], WORK) for name in names.split()}
    found, another = choose(data)
    assert set(found.values()) == set(taken.split())
    assert len(another) == bool(other) and other in "".join(another)


def test_a_suspect_that_nobody_touched_is_untouched():
    path = "lesson10_bug_hunt/bandit.py"
    assert is_untouched(path, (TUTORIAL / path).read_bytes()) and not is_untouched(path, b"x = 1\n")


@named(
    "name, path",
    {
        "module": ("tutorial/lesson04_gae/mine.py", "lesson04_gae/mine.py"),
        "package": ("tutorial/lesson04_gae/mine/deep/x.py", "lesson04_gae/mine/deep/x.py"),
        "module-above": ("tutorial/mine.py", "mine.py"),
        "package-above": ("tutorial/mine/x.py", ""),
        "letters-of-a-mac": ("tutorial/lesson04_gae/u\u0308ber.py", "lesson04_gae/\u00fcber.py"),
        "outside": ("mine.py", ""),
        "nobody-can-import-it": ("tutorial/lesson04_gae/my-own.py", ""),
        "longer-than-a-file-system-takes": ("tutorial/lesson04_gae/" + "a" * 300 + ".py", ""),
        "too-deep": ("tutorial/lesson04_gae/" + "a/" * 9 + "x.py", ""),
    },
)
def test_modules_of_the_students_own(name: str, path: str):
    for top in ("", "U\u0308bung/"):
        found = beside([f"{top}tutorial/{GAE}", top + name], {GAE: f"{top}tutorial/{GAE}"})
        assert found == ({path: top + name} if path else {})


def only(folder: Path, files: dict[str, str]) -> Submission:
    (hand_in,) = find(put(folder, {f"ann/{name}": text for name, text in files.items()}))
    return read_submission(hand_in, ["lesson04_gae"])


@pytest.mark.parametrize("name", "gae (1).py,GAE.py,gae.py.txt,gae_final.py,gae.ipynb".split(","))
def test_a_name_that_is_almost_right_is_proposed_and_not_guessed(tmp_path: Path, name: str):
    found = only(tmp_path, {name: "x", "late.py": "x", "labels.py": "x"})
    assert not found.files and found.status == "empty"
    assert [(one.kind, one.text) for one in found.doubts] == [
        (NEAR, f"no work in {GAE}; there is {name}: was it renamed?")
    ]


@pytest.mark.parametrize("text, kinds", [("", [NEAR]), ("mine = 0\n", [])])
def test_a_near_name_is_looked_at_beside_an_untouched_file(tmp_path: Path, text: str, kinds: list[str]):
    """What the course brings is none, nor a second copy in a lesson that is not asked for."""
    text = text or (TUTORIAL / GAE).read_text("utf-8")
    names = f"notebooks/04_gae.ipynb testcases/{GAE[:-3]}_test.py".split()
    files = {f"tutorial/{GAE}": text, f"solutions/{GAE}": MARKED.decode(), **dict.fromkeys(names, "x")}
    assert only(tmp_path / "clean", {**files, LOSS: "x", f"old/{LOSS}": "y"}).doubts == []
    found = only(tmp_path / "near", {**files, f"tutorial/{GAE[:-3]} (1).py": "x = 1\n"})
    assert [doubt.kind for doubt in found.doubts] == kinds


def test_a_thousand_modules_are_too_many(tmp_path: Path):
    found = only(tmp_path, {GAE: "x", **{f"lesson04_gae/m{number}.py": "x" for number in range(1000)}})
    assert GAE in found.files and len(found.files) <= 200
    assert any("one module too many" in note for note in found.notes)
