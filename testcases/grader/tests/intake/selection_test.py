"""What of a submission is graded: a tutorial/, or what came from one, and never the course's solutions."""

import pytest

from testcases.grader.intake import choose, course_files, exercises_in, is_untouched
from testcases.harness import named_cases
from testcases.harness.catalog import TUTORIAL

GAE, LOSS = "lesson04_gae/gae.py", "lesson05_ppo_loss/ppo_loss.py"
COURSE = ("Makefile", "README.md", "testcases/points.toml", "tiny_models/vocab.py")
ALL = tuple(f"solutions/{path}" for path in course_files())
MARK = b"def f():\n    # region solution\r    return 1\n    # endregion\n"


def chosen(names: tuple[str, ...], origin: str = "anna") -> tuple[str, set[str], str]:
    """Folder, files and notes; a name that ends in "!" is of a file with region marks."""
    data = {name.rstrip("!"): MARK if name.endswith("!") else b"def f(): ...\n" for name in names}
    found = choose(data, data.__getitem__, origin)
    return found.folder, set(found.files.values()), " | ".join(found.notes)


def marked(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}!" for name in names)


@named_cases(
    "names, folder, files",
    {
        "lessons-at-the-top": ((GAE, LOSS), ".", {GAE, LOSS}),
        "nested": (("homework/final/" + GAE,), "homework/final", {"homework/final/" + GAE}),
        "the-nearest": (("tutorial/" + GAE, "old/tutorial/" + LOSS), "tutorial", {"tutorial/" + GAE}),
        "not-the-fullest": ((GAE, "old/copy/" + GAE, "old/copy/" + LOSS), ".", {GAE}),
        "tutorial-before-what-is-beside": ((GAE, "tutorial/" + LOSS), "tutorial", {"tutorial/" + LOSS}),
        "parts-of-one-work": (("w1/" + GAE, "w2/" + LOSS), "w1, w2", {"w1/" + GAE, "w2/" + LOSS}),
        "copies-are-no-parts": (("a/" + GAE, "b/" + GAE, "b/" + LOSS), "a", {"a/" + GAE}),
        "one-file-alone": (("gae.py",), ".", {"gae.py"}),
        "one-file-that-two-lessons-have": (("src/trainer.py",), "", set()),
        "marks-alone-are-the-students": ((*marked(GAE), *COURSE[:2]), ".", {GAE}),
    },
)
def test_the_students_work_is_taken(names: tuple[str, ...], folder: str, files: set[str]):
    assert chosen(names)[:2] == (folder, files)


STUB = b"def f():\n" + b"".join(
    f'    raise NotImplementedError("lesson04: {one}")\n'.encode() for one in exercises_in(GAE)
)


@named_cases(
    "files, folder, second",
    {
        "names-in-order": ({"hw2_v1/" + GAE: b"1", "hw2_v2/" + GAE: b"2"}, "hw2_v1", "hw2_v2 has another"),
        "the-same-twice": ({"a/" + GAE: b"1", "b/" + GAE: b"1"}, "a", ""),
        "a-stub-never-wins": ({"backup/tutorial/" + GAE: STUB, "final/tutorial/" + GAE: b"2"}, "final/tutorial", ""),
        "a-stub-is-nearer": ({"tutorial/" + GAE: STUB, "tutorial - Copy/" + GAE: b"2"}, "tutorial - Copy", ""),
        "capitals": ({"TUTORIAL/" + GAE: b"1", "tutorial/" + GAE: b"2"}, "tutorial", "TUTORIAL has another"),
        "loose": ({"v1/gae.py": b"1", "v2/gae.py": b"2"}, "v1", "v2/gae.py is another text"),
        "a-loose-stub": ({"gae.py": STUB, "v2/gae.py": b"2"}, "v2", ""),
        "nothing-but-stubs": ({"a/" + GAE: STUB, "b/" + GAE: STUB + b"\n"}, "a", ""),
    },
)
def test_of_two_copies_one_with_work_is_graded_and_the_other_is_told(files: dict[str, bytes], folder: str, second: str):
    found = choose(files, files.__getitem__)
    assert found.folder == folder and len(found.files) == 1, found
    assert (second in " | ".join(found.second)) if second else not found.second


def test_a_suspect_that_nobody_touched_is_untouched():
    path = "lesson10_bug_hunt/bandit.py"
    assert is_untouched(path, (TUTORIAL / path).read_bytes()) and not is_untouched(path, b"x = 1\n")


def test_a_second_copy_of_a_single_file_is_named():
    assert "not graded: hw/v2/gae.py, since there is hw/v1/gae.py" in chosen(("hw/v1/gae.py", "hw/v2/gae.py"))[2]


@pytest.mark.parametrize("name, lesson", [("PPO", "lesson09_ppo_trainer"), ("DistributedPPO", "lesson11_scaling")])
def test_a_file_that_two_lessons_have_is_known_by_its_class(name: str, lesson: str):
    text = f"import x\n\nclass {name}Trainer(PPOTrainer):\n    pass\n".encode()
    assert choose(["trainer.py"], lambda _: text).files == {f"{lesson}/trainer.py": "trainer.py"}


@named_cases(
    "name, path",
    {
        "module": ("tutorial/lesson04_gae/mine.py", "lesson04_gae/mine.py"),
        "package": ("tutorial/lesson04_gae/mine/deep/x.py", "lesson04_gae/mine/deep/x.py"),
        "module-above": ("tutorial/mine.py", "mine.py"),
        "letters-of-a-mac": ("tutorial/lesson04_gae/u\u0308ber.py", "lesson04_gae/\u00fcber.py"),
        "pytest-finds-no-package-above": ("tutorial/mine/x.py", ""),
        "outside": ("mine.py", ""),
        "nobody-can-import-it": ("tutorial/lesson04_gae/my-own.py", ""),
        "longer-than-a-file-system-takes": ("tutorial/lesson04_gae/" + "a" * 300 + ".py", ""),
        "too-deep": ("tutorial/lesson04_gae/" + "a/" * 9 + "x.py", ""),
    },
)
def test_modules_of_the_students_own(name: str, path: str):
    for top in ("", "U\u0308bung/"):
        assert choose([f"{top}tutorial/{GAE}", top + name], lambda _: b"").beside == (
            {path: top + name} if path else {}
        )


@named_cases(
    "names",
    {
        "whole-repository": (*COURSE, *ALL, "tutorial/" + LOSS),
        "nested-repository": tuple(f"anna/ppo/{name}" for name in (*COURSE, *ALL, "tutorial/" + LOSS)),
        "without-neighbors": (*ALL, "tutorial/" + LOSS),
        "renamed": (*COURSE, *(f"answers/{path}" for path in course_files()), "tutorial/" + LOSS),
        "marks-at-the-top": (*marked(*course_files()), "tutorial/" + LOSS),
        "marks-before": (*marked(*(f"a/{path}" for path in course_files())), "z/tutorial/" + LOSS),
        "at-the-top-of-a-repository": (*COURSE, *course_files(), "tutorial/" + LOSS),
        "inside": (*(f"tutorial/solutions/{path}" for path in course_files()), "tutorial/" + LOSS),
    },
)
def test_of_a_repository_only_tutorial_is_graded_and_what_it_lacks_is_missing(names: tuple[str, ...]):
    folder, files, notes = chosen(names)
    assert folder.endswith("tutorial") and {name.rpartition("tutorial/")[2] for name in files} == {LOSS}, notes
    assert not any("solutions" in name for name in files) and notes


@named_cases(
    "names, origin",
    {
        "solutions": (ALL, "anna"),
        "deep-and-in-capitals": (tuple(f"my/SOLUTIONS/deep/{path}" for path in course_files()), "anna"),
        "a-renamed-copy-in-a-repository": ((*COURSE, "answers/" + GAE), "anna"),
        "marks-and-a-repository": (("README.md", "Makefile", *marked("answers/" + GAE)), "anna"),
        "marks-at-the-top-of-a-repository": ((*COURSE, *marked(GAE)), "anna"),
        "marks-and-a-name": (marked("Solutions (1)/" + GAE), "anna"),
        "the-submission-itself": (marked(GAE), "solutions"),
        "one-file-of-it": (("solutions/gae.py",), "anna"),
    },
)
def test_solutions_are_nobodys_work(names: tuple[str, ...], origin: str):
    folder, files, notes = chosen(names, origin)
    assert (folder, files) == ("", set())
    assert "not graded" in notes or names == ("solutions/gae.py",)
