"""What of a submission is graded: a tutorial/, else lesson folders, else file names, never the solutions."""

from pathlib import Path

import pytest

from testcases.grader.intake.exports import find
from testcases.grader.intake.selection import choose, course_files, exercises_in, is_untouched
from testcases.grader.intake.submissions import Submission, read_submission
from testcases.grader.status import NEAR, OTHER_FOLDER, SECOND
from testcases.grader.tests.running import put
from testcases.harness.catalog.lessons import SOLUTIONS, TUTORIAL
from testcases.harness.suite.asserts import named

GAE, LOSS = "lesson04_gae/gae.py", "lesson05_ppo_loss/ppo_loss.py"
COURSE = ("Makefile", "README.md", "testcases/points.toml", "tiny_models/vocab.py")
MARK = b"def f():\n    # region solution\r    return 1\n    # endregion\n"
STUB = b"def f():\n" + b"".join(
    f'    raise NotImplementedError("lesson04: {one}")\n'.encode() for one in exercises_in(GAE)
)


def solved(folder: str) -> tuple[str, ...]:
    """The course's files there, with the marks of solutions."""
    return tuple(f"{folder}{path}!" for path in course_files())


@named(
    "names, files",
    {
        "lessons-at-the-top": ((GAE, LOSS), {GAE, LOSS}),
        "nested": (("homework/final/" + GAE,), {"homework/final/" + GAE}),
        "nearest": (("tutorial/" + GAE, "old/tutorial/" + GAE), {"tutorial/" + GAE}),
        "not-the-fullest": ((GAE, "old/copy/" + GAE), {GAE}),
        "tutorial-first": ((GAE, "a/b/tutorial/" + GAE), {"a/b/tutorial/" + GAE}),
        "parts-of-one-work": (("w1/" + GAE, "w2/" + LOSS), {"w1/" + GAE, "w2/" + LOSS}),
        "loose": (("gae.py", "x/ppo_loss.py"), {"gae.py", "x/ppo_loss.py"}),
        "loose-after-folders": ((GAE, "gae.py"), {GAE}),
        "loose-of-two-lessons": (("src/trainer.py",), set()),
        "marks-alone-are-the-students": ((GAE + "!",), {GAE}),
        "whole-repository": ((*COURSE, *solved("solutions/"), "tutorial/" + LOSS), {"tutorial/" + LOSS}),
        "nested-repository": ((*solved("a/b/solutions/"), "a/b/tutorial/" + LOSS), {"a/b/tutorial/" + LOSS}),
        "renamed": ((*solved("answers/"), "tutorial/" + LOSS), {"tutorial/" + LOSS}),
        "solutions-at-the-top": ((*solved(""), "z/tutorial/" + LOSS), {"z/tutorial/" + LOSS}),
        "solutions-inside": ((*solved("tutorial/solutions/"), "tutorial/" + LOSS), {"tutorial/" + LOSS}),
        "nothing-but-solutions": (solved("my/Solutions (1)/"), set()),
        "a-repository-without-tutorial": ((*COURSE, *solved("answers/")), set()),
        "loose-files-of-the-course": (("testcases/gae.py", "solutions/gae.py!", "ppo_by_hand/core/gae.py"), set()),
    },
)
def test_the_students_work_is_taken_and_nothing_else(names: tuple[str, ...], files: set[str]):
    """A name that ends in "!" is of a file with region marks."""
    data = {name.rstrip("!"): MARK if name.endswith("!") else b"def f(): ...\n" for name in names}
    assert set(choose(data, data.__getitem__).files.values()) == files


@named(
    "files, taken, other",
    {
        "names-in-order": ({"hw_v1/" + GAE: b"1", "hw_v2/" + GAE: b"2"}, "hw_v1/" + GAE, "hw_v2 has another"),
        "the-same-twice": ({"a/" + GAE: b"1", "b/" + GAE: b"1"}, "a/" + GAE, ""),
        "a-stub-never-wins": ({"old/tutorial/" + GAE: STUB, "x/y/tutorial/" + GAE: b"2"}, "x/y/tutorial/" + GAE, ""),
        "not-even-with-its-name": ({"tutorial/" + GAE: STUB, "mine/" + GAE: b"2"}, "mine/" + GAE, ""),
        "loose-beside-a-stub": ({"tutorial/" + GAE: STUB, "gae.py": b"2"}, "gae.py", ""),
        "capitals": ({"TUTORIAL/" + GAE: b"1", "tutorial/" + GAE: b"2"}, "tutorial/" + GAE, "TUTORIAL has another"),
        "loose": ({"v1/gae.py": b"1", "v2/gae.py": b"2"}, "v1/gae.py", "v2 has another"),
        "a-loose-stub": ({"gae.py": STUB, "v2/gae.py": b"2"}, "v2/gae.py", ""),
        "one-loose-stub": ({"gae.py": STUB}, "gae.py", ""),
        "a-loose-stub-beside-a-stub": ({"tutorial/" + GAE: STUB, "gae.py": STUB}, "tutorial/" + GAE, ""),
        "nothing-but-stubs": ({"a/" + GAE: STUB, "b/" + GAE: STUB + b"\n"}, "a/" + GAE, ""),
    },
)
def test_of_two_copies_one_with_work_is_graded_and_the_other_is_told(files: dict[str, bytes], taken: str, other: str):
    found = choose(files, files.__getitem__)
    assert found.files == {GAE: taken}
    assert [kind for kind, _ in found.doubts] == [SECOND] * bool(other) and (not other or other in found.doubts[0][1])


def test_work_in_solutions_beside_an_untouched_tutorial_is_told():
    solution = (SOLUTIONS / GAE).read_bytes()
    files = {f"tutorial/{GAE}": (TUTORIAL / GAE).read_bytes(), f"solutions/{GAE}": solution}
    assert choose(files, files.__getitem__).doubts == []
    files[f"solutions/{GAE}"] = solution.replace(b"gamma *", b"2 * gamma *")
    found = choose(files, files.__getitem__)
    assert found.files == {GAE: f"tutorial/{GAE}"} and [kind for kind, _ in found.doubts] == [OTHER_FOLDER]


def test_a_suspect_that_nobody_touched_is_untouched():
    path = "lesson10_bug_hunt/bandit.py"
    assert is_untouched(path, (TUTORIAL / path).read_bytes()) and not is_untouched(path, b"x = 1\n")


@pytest.mark.parametrize("name, lesson", [("PPO", "lesson09_ppo_trainer"), ("DistributedPPO", "lesson11_scaling")])
def test_a_file_that_two_lessons_have_is_known_by_its_class(name: str, lesson: str):
    text = f"import x\n\nclass {name}Trainer(PPOTrainer):\n    pass\n".encode()
    assert choose(["trainer.py"], lambda _: text).files == {f"{lesson}/trainer.py": "trainer.py"}


@named(
    "name, path",
    {
        "module": ("tutorial/lesson04_gae/mine.py", "lesson04_gae/mine.py"),
        "package": ("tutorial/lesson04_gae/mine/deep/x.py", "lesson04_gae/mine/deep/x.py"),
        "module-above": ("tutorial/mine.py", "mine.py"),
        "letters-of-a-mac": ("tutorial/lesson04_gae/u\u0308ber.py", "lesson04_gae/\u00fcber.py"),
        "outside": ("mine.py", ""),
        "nobody-can-import-it": ("tutorial/lesson04_gae/my-own.py", ""),
        "longer-than-a-file-system-takes": ("tutorial/lesson04_gae/" + "a" * 300 + ".py", ""),
        "too-deep": ("tutorial/lesson04_gae/" + "a/" * 9 + "x.py", ""),
    },
)
def test_modules_of_the_students_own(name: str, path: str):
    for top in ("", "U\u0308bung/"):
        found = choose([f"{top}tutorial/{GAE}", top + name], lambda _: b"").beside
        assert found == ({path: top + name} if path else {})


def only(folder: Path, files: dict[str, str]) -> Submission:
    (hand_in,) = find(put(folder, {f"ann/{name}": text for name, text in files.items()}))
    return read_submission(hand_in, ["lesson04_gae"])


@pytest.mark.parametrize("name", "gae (1).py,GAE.py,gae.PY,Copy of gae.py,gae.py.txt,gae_v2.py,gae.ipynb".split(","))
def test_a_name_that_is_almost_right_is_proposed_and_not_guessed(tmp_path: Path, name: str):
    found = only(tmp_path, {name: "x", "late.py": "x", "labels.py": "x"})
    assert not found.files and found.status == "empty"
    assert [(one.kind, one.text) for one in found.doubts] == [(NEAR, f"no {GAE}; there is {name}: was it renamed?")]


@pytest.mark.parametrize("text, kinds", [("", [NEAR]), ("mine = 0\n", [SECOND]), ("x = 1\n", [])])
def test_a_copy_that_a_browser_has_numbered_is_a_doubt(tmp_path: Path, text: str, kinds: list[str]):
    text = text or (TUTORIAL / GAE).read_text("utf-8")
    found = only(tmp_path, {f"tutorial/{GAE}": text, f"tutorial/{GAE[:-3]} (1).py": "x = 1\n"})
    assert [doubt.kind for doubt in found.doubts] == kinds


def test_what_the_course_brings_is_no_doubt(tmp_path: Path):
    names = ("notebooks/04_gae.ipynb", "solutions/demo/stages.py", "testcases/lesson04_gae/gae_test.py")
    assert not only(tmp_path, {f"tutorial/{GAE}": "x", **dict.fromkeys(names, "x")}).doubts


def test_a_thousand_modules_are_too_many(tmp_path: Path):
    found = only(tmp_path, {GAE: "x", **{f"lesson04_gae/m{number}.py": "x" for number in range(1000)}})
    assert GAE in found.files and len(found.files) <= 200
    assert any("one module too many" in note for note in found.notes)
