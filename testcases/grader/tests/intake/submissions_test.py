"""What is read of a submission, and what of that is graded, never the solutions: a tutorial/, else lesson folders, else
file names. Whatever is wrong with it is said, before any of it runs."""

import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.intake import archives as reading
from testcases.grader.intake.exports import find
from testcases.grader.intake.selection import beside, choose, course_files, exercises_in, is_untouched
from testcases.grader.intake.submissions import Submission, read_submission
from testcases.grader.status import CLOSED, NEAR
from testcases.grader.tests.running import TARGET, packed, put
from testcases.harness.catalog import TUTORIAL
from testcases.harness.suite.asserts import named

GOOD = "mine = 1\n"
SOUND = packed({f"tutorial/{TARGET}": GOOD})


def tarred(mode: str, *members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def member(name: str, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE if link else tarfile.REGTYPE, link
    return info


def linked() -> bytes:
    info = zipfile.ZipInfo(TARGET)
    info.create_system, info.external_attr = 3, 0o120777 << 16
    return packed({info: "/etc/passwd"})


def locked() -> bytes:
    data = bytearray(SOUND)
    data[data.index(b"PK\3\4") + 6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    return bytes(data)


GOOD_FILE = member(f"./anna/tutorial/{TARGET}"), GOOD.encode()
ARCHIVES: dict[str, tuple[bytes, str, str]] = {
    "tar.tar.gz": (tarred("w:gz", GOOD_FILE), "graded", ""),
    "venv-is-her-name.zip": (SOUND, "graded", ""),
    "windows.zip": (packed({f"a\\tutorial\\{TARGET.replace('/', chr(92))}": GOOD}), "graded", ""),
    "deep.zip": (packed({"a.zip": packed({"b.zip": packed({"c.zip": SOUND})})}), "graded", ""),
    "climbing.zip": (packed({f"x/../../{TARGET}": GOOD, "/tmp/pwned.py": ""}), "graded", ""),
    "link.zip": (linked(), "empty", "is a link or a device"),
    "link.tar": (tarred("w", (member(TARGET, "/etc/passwd"), b"")), "empty", "is a link or a device"),
    "locked.zip": (locked(), "unreadable", "encrypted"),
    "large.zip": (packed({TARGET: "#" * 30_000_000}), "unreadable", "larger than 1,000,000 bytes"),
    "damaged.zip": (SOUND.replace(GOOD.encode(), b"mine = 2\n"), "unreadable", "BadZipFile"),
    "bomb.tgz": (tarred("w:gz", (member("zeros"), bytes(210_000_000)), GOOD_FILE), "unreadable", "unpacks to more"),
    "half.zip": (SOUND[: len(SOUND) // 2], "unreadable", "BadZipFile"),
    "anna.docx": (GOOD.encode(), "empty", "no file of the assignment in it; there is anna.docx"),
}
"""What comes of each, and what is said of it."""


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_read_or_says_why_not(tmp_path: Path, name: str):
    data, status, note = ARCHIVES[name]
    (tmp_path / name).write_bytes(data)
    found = read_submission(*find(tmp_path))
    assert found.status == status, found.notes
    assert (TARGET in found.damaged) == (name in ("locked.zip", "large.zip", "damaged.zip"))
    assert note in " | ".join(found.notes) and ("graded: " in " | ".join(found.notes)) == (status == "graded")
    assert found.files == ({TARGET: GOOD.encode()} if status == "graded" else {})
    assert not Path("/tmp/pwned.py").exists()


def test_what_is_no_file_is_not_read(tmp_path: Path):
    secret, folder = tmp_path / "secret", tmp_path / "in"
    secret.write_text("root:x:secret", "utf-8")
    for name, make in (("pipe", os.mkfifo), ("link", lambda path: os.symlink(secret, path)), ("folder", os.mkdir)):
        (folder / name / "lesson04_gae").mkdir(parents=True)
        make(folder / name / TARGET)
    os.mkfifo(folder / "pipe.zip")
    os.symlink(secret, folder / "link.zip")
    os.symlink("/", folder / "root")
    (folder / "loop" / TARGET).parent.mkdir(parents=True)
    os.symlink("..", folder / "loop/lesson04_gae/again")
    (folder / "deep" / "/".join("abcdefghijklmnopqrstuvwxyz")).mkdir(parents=True)
    found = [read_submission(one) for one in find(folder)]
    assert len(found) == 8 and all(not one.files and one.status == "empty" for one in found)
    said = " | ".join(note for one in found for note in one.notes)
    assert said.count("is a link or a device: not read") == 6 and "too deep" in said


def test_what_may_not_be_read_is_told_without_its_path_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def but_these(do: Any) -> Any:
        def done(path: Path, *given: Any, **more: Any) -> Any:
            if Path(path).name in ("closed", "mine.py", ".git"):
                raise PermissionError(13, "Permission denied", str(path))
            return do(path, *given, **more)

        return done

    put(tmp_path, {"ann/closed/x.py": "", "ann/lesson04_gae/mine.py": "", f"ann/{TARGET}": GOOD})
    monkeypatch.setattr(os, "listdir", but_these(os.listdir))
    monkeypatch.setattr(Path, "open", but_these(Path.open))
    monkeypatch.setattr(os, "stat", but_these(os.stat))
    (ann,) = map(read_submission, find(tmp_path))
    assert ann.files == {TARGET: GOOD.encode()} and ann.damaged == {
        "lesson04_gae/mine.py": "cannot be read: Permission denied"
    }
    assert [doubt.text for doubt in ann.doubts] == ["closed: cannot be read: Permission denied"]


JUNK = ("venv/lib/torch/g{}.py", "env/{}x.py", "node_modules/{}x.py", ".git/{}x.o", "a/__pycache__/{}x.pyc")


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_only_what_is_no_junk_uses_up_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str):
    monkeypatch.setattr(reading, "MAX_FILES", 20)
    monkeypatch.setattr(reading, "MAX_UNPACKED", 60_000)
    for names, status in ((JUNK, "graded"), (("b{}.py",), "unreadable")):
        files = {**{name.format(number): "#" * 10_000 for name in names for number in range(40)}, TARGET: GOOD}
        members = [(member(name), text.encode()) for name, text in files.items()]
        forms = {
            "folder": {f"ann/{name}": text for name, text in files.items()},
            "zip": {"ann.zip": packed(files)},
            "tar": {"ann.tgz": tarred("w:gz", *members)},
        }
        (ann,) = map(read_submission, find(put(tmp_path / status, forms[form])))
        assert (ann.status, TARGET in ann.files) == (status, status == "graded"), ann.notes


def test_an_archive_that_is_too_large_takes_nothing_from_the_files_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "MAX_UNPACKED", 1_000)
    packed_model = tarred("w:gz", (member("model.pt"), bytes(2_000)))
    put(tmp_path, {"leeann_11_91_a.tgz": packed_model, "leeann_11_92_gae.py": GOOD})
    (ann,) = map(read_submission, find(tmp_path))
    assert ann.files == {TARGET: GOOD.encode()} and [doubt.kind for doubt in ann.doubts] == [CLOSED]


def test_of_too_many_archives_the_rest_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "MAX_ARCHIVES", 3)
    put(tmp_path, {f"ann/{number}.zip": SOUND if number == 4 else packed({"x": ""}) for number in range(5)})
    (ann,) = map(read_submission, find(tmp_path))
    assert ann.status == "unreadable" and any("one of more than 3 archives" in note for note in ann.notes)


GAE, LOSS = TARGET, "lesson05_ppo_loss/ppo_loss.py"
TRAINER, SCALED = "lesson09_ppo_trainer/trainer.py", "lesson11_scaling/trainer.py"
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
        "nearest": (f"z/tutorial/{GAE} a/b/tutorial/{GAE}", f"z/tutorial/{GAE}", ""),
        "tutorial-first": (f"{GAE} a/b/tutorial/{GAE}", f"a/b/tutorial/{GAE}", ""),
        "parts-of-one-work": (f"w1/{GAE} w2/{LOSS}", f"w1/{GAE} w2/{LOSS}", ""),
        "loose": ("gae.py x/ppo_loss.py", "gae.py x/ppo_loss.py", ""),
        "marks-alone-are-the-students": (f"{GAE}!", GAE, ""),
        "whole-repository": (f"{COURSE} {solved('solutions/')} tutorial/{LOSS}", f"tutorial/{LOSS}", ""),
        "solutions-at-the-top": (f"{solved('')} z/tutorial/{LOSS}", f"z/tutorial/{LOSS}", ""),
        "solutions-inside": (f"{solved('tutorial/solutions/')} tutorial/{LOSS}", f"tutorial/{LOSS}", ""),
        "nothing-but-solutions": (solved("my/Solutions/"), "", ""),
        "a-repository-without-tutorial": (f"{COURSE} {solved('answers/')}", "", ""),
        "renamed-beside-a-stub": (f"{solved('answers/')} tutorial/{GAE}?", f"tutorial/{GAE}", ""),
        "loose-files-of-the-course": ("testcases/gae.py solutions/gae.py! ppo_by_hand/core/gae.py", "", ""),
        "copies-in-order": (f"hw_v1/{GAE} hw_v2/{GAE}*", f"hw_v1/{GAE}", f"hw_v2/{GAE} has another"),
        "a-stub-never-wins": (f"old/tutorial/{GAE}? x/y/tutorial/{GAE}", f"x/y/tutorial/{GAE}", ""),
        "loose-beside-a-stub": (f"tutorial/{GAE}? gae.py", "gae.py", ""),
        "two-lessons-have-this-name": (f"{TRAINER} {SCALED}*", f"{TRAINER} {SCALED}", ""),
        "one-of-the-two": (f"tutorial/{TRAINER}", f"tutorial/{TRAINER}", ""),
        "capitals": (f"TUTORIAL/{GAE}* tutorial/{GAE}", f"tutorial/{GAE}", f"TUTORIAL/{GAE} has another"),
    },
)
def test_the_students_work_is_taken_and_nothing_else(names: str, taken: str, other: str):
    data = {name.rstrip("!?*"): TEXTS.get(name[-1], WORK) for name in names.split()}
    found, another = choose(data)
    assert sorted(found.values()) == sorted(taken.split())
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
    assert only(tmp_path / "alone", {name: "x"}).notes[-1].count(name) == 1
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
