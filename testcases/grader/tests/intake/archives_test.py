"""Everything that can be wrong with a submission before any of it runs: it is read, or it says why it is not."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from testcases.grader.intake import archives as reading
from testcases.grader.intake.exports import find
from testcases.grader.intake.submissions import Submission, read_submission
from testcases.grader.tests.running import packed

TARGET, GOOD = "lesson04_gae/gae.py", "mine = 1\n"
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
    info, data = zipfile.ZipInfo(TARGET), io.BytesIO()
    info.create_system, info.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return data.getvalue()


def locked() -> bytes:
    data = bytearray(SOUND)
    data[data.index(b"PK\3\4") + 6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    return bytes(data)


GOOD_FILE = member(f"./anna/tutorial/{TARGET}"), GOOD.encode()
ARCHIVES: dict[str, tuple[bytes, str, str]] = {
    "sound.zip": (SOUND, "graded", ""),
    "inside.zip": (packed({"homework.zip": SOUND}), "graded", ""),
    "tar.tar.gz": (tarred("w:gz", GOOD_FILE), "graded", ""),
    "tar.tar.xz": (tarred("w:xz", GOOD_FILE), "graded", ""),
    "capitals.zip": (packed({"LESSON04_GAE/GAE.PY": "=", TARGET: GOOD}), "graded", ""),
    "windows.zip": (packed({f"a\\tutorial\\{TARGET.replace('/', chr(92))}": GOOD}), "graded", ""),
    "device.tar": (tarred("w", (member(TARGET, tarfile.CHRTYPE), b""), GOOD_FILE), "graded", "is a device: not read"),
    "deep.zip": (packed({"a.zip": packed({"b.zip": packed({"c.zip": SOUND})})}), "graded", ""),
    "climbing.zip": (packed({f"x/../../{TARGET}": GOOD, "/tmp/pwned.py": ""}), "empty", "leads out of the archive"),
    "link.zip": (linked(), "empty", "is a link: not read"),
    "link.tar": (tarred("w", (member(TARGET, tarfile.SYMTYPE, "/etc/passwd"), b"")), "empty", "is a link: not read"),
    "hard.tar": (tarred("w", (member(TARGET, tarfile.LNKTYPE, "../../secret"), b"")), "empty", "is a link: not read"),
    "locked.zip": (locked(), "empty", "encrypted: not read"),
    "large.zip": (packed({TARGET: "#" * 30_000_000}), "empty", "larger than 1,000,000 bytes"),
    "bomb.tgz": (tarred("w:gz", (member("zeros"), bytes(210_000_000)), GOOD_FILE), "unreadable", "unpacks to more"),
    "half.zip": (SOUND[: len(SOUND) // 2], "unreadable", "BadZipFile"),
    "text.tar.gz": (b"not an archive", "unreadable", "not an archive"),
    "nothing.zip": (b"", "unreadable", "not an archive"),
    "notes.txt": (b"", "unreadable", "expected a folder or an archive"),
    "anna.py": (GOOD.encode(), "unreadable", "expected a folder or an archive"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_read_or_says_why_not(tmp_path: Path, name: str):
    data, status, note = ARCHIVES[name]
    (tmp_path / name).write_bytes(data)
    found = read_submission(*find(tmp_path))
    assert found.status == status and note in " | ".join(found.notes), found.notes
    assert found.files == ({TARGET: GOOD.encode()} if status == "graded" else {})
    assert not Path("/tmp/pwned.py").exists()


def test_of_a_file_that_is_twice_in_a_zip_the_last_counts_and_a_damaged_one_is_not_missing(tmp_path: Path):
    with pytest.warns(UserWarning), zipfile.ZipFile(tmp_path / "ann.zip", "w") as archive:
        for text in ("x = 1\n", GOOD, "x = 1234567\n"):
            archive.writestr(TARGET, text)
        archive.writestr("lesson05_ppo_loss/ppo_loss.py", "y = 1\n")
    (ann,) = map(read_submission, find(tmp_path))
    assert ann.files[TARGET] == b"x = 1234567\n" and any("more than once" in note for note in ann.notes)
    path = tmp_path / "ann.zip"
    path.write_bytes(path.read_bytes().replace(b"x = 1234567", b"x = 7654321"))
    (ann,) = map(read_submission, find(tmp_path))
    assert ann.status == "graded" and "damaged" in ann.damaged[TARGET]


def test_what_is_no_file_is_not_read(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("root:x:secret", "utf-8")
    (tmp_path / "in").mkdir()
    for name, make in (("pipe", os.mkfifo), ("link", lambda path: os.symlink(secret, path)), ("folder", os.mkdir)):
        (tmp_path / "in" / name / "lesson04_gae").mkdir(parents=True)
        make(tmp_path / "in" / name / TARGET)
    os.mkfifo(tmp_path / "in" / "pipe.zip")
    os.symlink(secret, tmp_path / "in" / "link.zip")
    os.symlink("/", tmp_path / "in" / "root")
    (tmp_path / "in/loop" / TARGET).parent.mkdir(parents=True)
    os.symlink("..", tmp_path / "in/loop/lesson04_gae/again")
    (tmp_path / "in/deep" / "/".join("abcdefghijkl")).mkdir(parents=True)
    found: list[Submission] = [read_submission(one) for one in find(tmp_path / "in")]
    assert len(found) == 8 and all(not one.files and one.status in ("empty", "unreadable") for one in found)
    said = " | ".join(note for one in found for note in one.notes)
    assert all(text in said for text in ("is a pipe: not read", "is a link: not read", "got a pipe", "too deep"))


JUNK = ("venv/lib/torch/gae.py", "env/x.py", "node_modules/x.py", ".git/x.o", "a/__pycache__/x.pyc")


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_junk_of_any_size_uses_up_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str):
    names = [one.replace("x.", f"{n}x.").replace("gae", f"g{n}") for one in JUNK for n in range(40)]
    monkeypatch.setattr(reading, "MAX_LISTED", 20)
    monkeypatch.setattr(reading, "MAX_UNPACKED", 60_000)
    if form == "folder":
        for name in (*names, TARGET):
            (tmp_path / "ann" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "ann" / name).write_text(GOOD, "utf-8")
    elif form == "zip":
        (tmp_path / "ann.zip").write_bytes(packed(dict.fromkeys((*names, TARGET), GOOD)))
    else:
        members = [(member(name), bytes(10_000)) for name in names]
        (tmp_path / "ann.tgz").write_bytes(tarred("w:gz", *members, (member(TARGET), GOOD.encode())))
    (ann,) = map(read_submission, find(tmp_path))
    assert (ann.status, ann.files) == ("graded", {TARGET: GOOD.encode()}), ann.notes
