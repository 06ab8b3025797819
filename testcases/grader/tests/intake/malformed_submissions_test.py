"""Everything that can be wrong with a submission before any of it runs."""

import contextlib
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from testcases.grader.tests.running import TARGET, grade, gradebook, row, solved
from testcases.harness.catalog import SOLUTIONS, TUTORIAL, manifest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("grader-batches")]


def _zipped(folder: Path, name: str, *members: tuple[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members:
            archive.writestr(path, content)
    (folder / name).write_bytes(data.getvalue())
    return data.getvalue()


def _tarred(folder: Path, name: str, mode: str, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with tarfile.open(folder / name, mode) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def archives(folder: Path) -> None:
    """Archives as they are handed in, sound and not."""
    good = (SOLUTIONS / TARGET).read_bytes()
    inner = _zipped(folder, "zip.zip", ("tutorial/" + TARGET, good))
    _zipped(folder, "zip-in-zip.zip", ("homework.zip", inner))
    _zipped(folder, "climbing.zip", ("../../../../tmp/pwned.py", b""), (f"x/../../{TARGET}", good), ("/tmp/pwned", b""))
    _zipped(folder, "bomb.zip", (TARGET, b"#" * 30_000_000))
    _zipped(folder, "thousands.zip", *((f"file{number}.py", b"") for number in range(6000)))
    _tarred(folder, "tar.tar.gz", "w:gz", (tarfile.TarInfo(f"./anna/tutorial/{TARGET}"), good))
    _tarred(folder, "xz.tar.xz", "w:xz", (tarfile.TarInfo(TARGET), good))
    _tarred(folder, "bomb.tgz", "w:gz", (tarfile.TarInfo("zeros"), bytes(210_000_000)), (tarfile.TarInfo(TARGET), good))
    link = tarfile.TarInfo(TARGET)
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard = tarfile.TarInfo("lesson05_ppo_loss/ppo_loss.py")
    hard.type, hard.linkname = tarfile.LNKTYPE, "../../secret"
    pipe = tarfile.TarInfo("lesson03_policy_gradient/policy_gradient.py")
    pipe.type = tarfile.FIFOTYPE
    _tarred(folder, "links.tar", "w", (link, b""), (hard, b""), (pipe, b""))
    device = tarfile.TarInfo(TARGET)
    device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 5
    _tarred(folder, "device.tar", "w", (device, b""), (tarfile.TarInfo("n" * 5000 + "/" + TARGET), good))
    _zipped(folder, "cased.zip", ("LESSON04_GAE/GAE.PY", b"="), ("lesson04_gae/GAE.py", b"="), (TARGET, good))
    link_in_zip = zipfile.ZipInfo(TARGET)
    link_in_zip.create_system, link_in_zip.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(folder / "linked.zip", "w") as archive:
        archive.writestr(link_in_zip, "/etc/passwd")
    locked = bytearray(inner)
    locked[locked.index(b"PK\3\4") + 6] |= 1
    locked[locked.index(b"PK\1\2") + 8] |= 1
    (folder / "locked.zip").write_bytes(locked)
    (folder / "broken.zip").write_bytes(inner[: len(inner) // 2])
    (folder / "text.tar.gz").write_bytes(b"not an archive")
    (folder / "empty.zip").write_bytes(b"")


ODD = ["=HYPERLINK(1)", "<b>bold</b>", "a b", "ünï", "@cmd", "[red]x", "x" * 200, "-1", "%s{0}", "a\nb", "\x1b[2Jx"]
ORDINARY = ["a b", "ünï", "[red]x"]
"""Odd to a program, not to a person: they are marked like all others."""


@pytest.fixture(scope="module")
def odd(bubblewrap: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that can be wrong with a submission before any of it runs."""
    top = tmp_path_factory.mktemp("odd")
    folder, out = top / "in", top / "out"
    folder.mkdir()
    (top / "secret").write_text("root:x:secret", "utf-8")
    archives(folder)
    for name in set(ODD) - set(ORDINARY):
        solved(folder / name, "lesson04_gae", top=TUTORIAL)
    for name in ("Anna", "anna", *ORDINARY):
        solved(folder / name, "lesson04_gae")
    (folder / "nothing").mkdir()
    (folder / "folders" / "a/b/c/d/e/f/g/h/i/j/k/l/m/n").mkdir(parents=True)
    (folder / "notes.txt").write_text("no submission", "utf-8")
    os.mkfifo(folder / "pipe")
    os.symlink(top / "secret", folder / "link.zip")
    os.symlink(SOLUTIONS, folder / "link")
    for name, make in (
        ("file-is-pipe", os.mkfifo),
        ("file-is-link", lambda path: os.symlink(top / "secret", path)),
        ("file-is-folder", os.mkdir),
    ):
        (folder / name / "lesson04_gae").mkdir(parents=True)
        make(folder / name / TARGET)
    os.symlink(SOLUTIONS / "lesson04_gae", (folder / "nothing" / "lesson04_gae"))
    for name in (b"a\nb.py", b"\xff\xfe.py", b"\x1b[2J.zip", b"x" * 250 + b".py"):
        with contextlib.suppress(OSError):  # Some file systems take only text.
            open(os.path.join(os.fsencode(solved(folder / "names", "lesson04_gae")), name), "wb").close()
    (folder / ".hidden").mkdir()
    (folder / ".gitkeep").touch()
    (folder / "lesson-is-a-file").mkdir()
    (folder / "lesson-is-a-file" / "lesson04_gae").write_text("x", "utf-8")
    solved(folder / "loop", "lesson04_gae")
    os.symlink("..", folder / "loop" / "lesson04_gae" / "again")
    (top / "roster.csv").write_bytes("name;e-mail\nanna;a@x\nM\xfcller;m@x\n\n=1+1;\n".encode("latin-1"))
    done = grade(folder, out, "--roster", str(top / "roster.csv"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in top.iterdir()} == {"in", "out", "secret", "roster.csv"}
    assert not Path("/tmp/pwned").exists() and not Path("/tmp/pwned.py").exists()
    return out


@pytest.mark.parametrize(
    "student", ["zip", "zip-in-zip", "tar", "xz", "device", "cased", "names", "loop", "anna", "Anna", *ORDINARY]
)
def test_odd_but_sound(odd: Path, student: str):
    points = sum(entry.points for entry in manifest().values() if entry.lesson == "lesson04_gae")
    assert (row(odd, student)["status"], row(odd, student)["score"]) == ("graded", str(points))


@pytest.mark.parametrize(
    "student, status, note",
    [
        ("nothing", "empty", "is a link: not read"),
        ("folders", "empty", "too deep"),
        ("notes.txt", "unreadable", "expected a folder or an archive"),
        ("pipe", "unreadable", "a pipe"),
        ("link", "unreadable", "a link"),
        ("file-is-pipe", "empty", "is a pipe: not read"),
        ("file-is-link", "empty", "is a link: not read"),
        ("file-is-folder", "empty", "no file of the course"),
        ("climbing", "empty", "leads out of the archive"),
        ("links", "empty", "is a link: not read"),
        ("thousands", "empty", "the rest was not read"),
        ("linked", "empty", "is a link: not read"),
        ("locked", "empty", "encrypted: not read"),
        (".hidden", "empty", "no file of the course"),
        ("lesson-is-a-file", "empty", "no file of the course"),
        ("broken", "unreadable", "BadZipFile"),
        ("text", "unreadable", "not an archive"),
        ("empty", "unreadable", "not an archive"),
        ("Müller", "unclear", "may be theirs"),
        ("zip", "graded", "not on the roster"),
        ("Anna", "graded", "the same name"),
    ],
)
def test_odd_and_said_so(odd: Path, student: str, status: str, note: str):
    found = row(odd, student)
    assert found["status"] == status and note in found["notes"], found
    assert found["score"] == (found["score"] if status == "graded" else "")


def test_bombs_do_not_go_off(odd: Path):
    found = [one for one in gradebook(odd) if one["student"] == "bomb"]
    assert len(found) == 2 and {row["score"] for row in found} == {""}
    for told in ("larger than", "unpacks to more"):
        assert any(told in row["notes"] for row in found)


def test_names_are_only_text(odd: Path):
    rows = gradebook(odd)
    assert len(rows) == len(list((odd / "results").glob("*.json"))) + 2  # two of the roster handed in nothing
    for found in rows:
        assert all(cell[:1] not in tuple("=+-@\t\r") for cell in found.values() if not cell.isdigit()), found
        assert all(letter.isprintable() for cell in found.values() for letter in cell)
    names = [path.name.lower() for path in (odd / "results").iterdir()]
    assert len(names) == len(set(names)), "two results differ only in capital letters"
    assert all(name.isascii() and " " not in name for name in names)
    assert "root:x:secret" not in "".join(path.read_text("utf-8") for path in (odd / "results").iterdir())
