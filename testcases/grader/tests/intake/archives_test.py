"""Everything that can be wrong with a submission before any of it runs: it is read, or it says why it is not."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from testcases.grader.intake import archives as reading
from testcases.grader.intake.exports import find
from testcases.grader.intake.submissions import read_submission
from testcases.grader.tests.running import TARGET, packed, put

GOOD = "mine = 1\n"
SOUND = packed({f"tutorial/{TARGET}": GOOD})


def tarred(mode: str, *members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
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
    "windows.zip": (packed({f"a\\tutorial\\{TARGET.replace('/', chr(92))}": GOOD}), "graded", ""),
    "deep.zip": (packed({"a.zip": packed({"b.zip": packed({"c.zip": SOUND})})}), "graded", ""),
    "climbing.zip": (packed({f"x/../../{TARGET}": GOOD, "/tmp/pwned.py": ""}), "graded", ""),
    "link.zip": (linked(), "empty", "is a link or a device"),
    "link.tar": (tarred("w", (member(TARGET, tarfile.SYMTYPE, "/etc/passwd"), b"")), "empty", "is a link or a device"),
    "hard.tar": (tarred("w", (member(TARGET, tarfile.LNKTYPE, "../secret"), b"")), "empty", "is a link or a device"),
    "device.tar": (tarred("w", (member(TARGET, tarfile.CHRTYPE), b"")), "empty", "is a link or a device"),
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
    assert note in " | ".join(found.notes)
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


def test_of_too_many_archives_the_rest_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "MAX_ARCHIVES", 3)
    put(tmp_path, {f"ann/{number}.zip": SOUND if number == 4 else packed({"x": ""}) for number in range(5)})
    (ann,) = map(read_submission, find(tmp_path))
    assert ann.status == "unreadable" and any("one of more than 3 archives" in note for note in ann.notes)
