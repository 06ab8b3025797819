"""The grader against submissions that cheat, break or are broken: `adversarial/<name>/` holds one, and its verdict."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from testcases.engine.contract import ROOT, SOLUTIONS
from testcases.engine.points import manifest
from testcases.grader import sandbox

CORPUS = Path(__file__).parent / "adversarial"
NAMES = sorted(path.parent.name for path in CORPUS.glob("*/expect.toml"))
SHORT = "call_seconds=2,grace_seconds=0.5,deaths=1,memory_mb=512,exercise_seconds=20"
"""Limits for those who will reach them; whoever is right has the usual ones, so that a busy machine changes no mark."""
TARGET = "lesson04_gae/gae.py"
TOKEN = "a-token-that-no-student-may-see"
SECRET = "hedgehogs carry 128 bits"
STATUSES = {
    *("passed", "wrong", "error", "timeout", "memory", "crash", "output-limit", "not-started", "missing"),
    *("blocked", "tamper-suspected", "grader-error"),
}

try:
    sandbox.check_bubblewrap()
    WHY = ""
except sandbox.NoSandbox:
    WHY = "bubblewrap is missing or may make no namespaces here: make check-sandbox says more"
pytestmark = pytest.mark.xdist_group("grader")


def check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "testcases.grader", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=400, env={**os.environ, **environment}, check=False
    )


def grade(folder: Path, out: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return check(str(folder), "--out", str(out), "--jobs", "2", *arguments, **environment)


def results(out: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((out / "results").glob("*.json"))}


def gradebook(out: Path) -> list[dict[str, str]]:
    with open(out / "gradebook.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def without_times(out: Path) -> dict[str, dict[str, Any]]:
    return {name: {**result, "seconds": 0} for name, result in results(out).items()}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def workers(out: Path) -> list[int]:
    """Processes of a run that are still there."""
    found, mark = [], sandbox.run_of(out / ".work" / "course").encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            pass
    return found


def solved(folder: Path, *lessons: str) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    for lesson in lessons:
        shutil.copytree(SOLUTIONS / lesson, folder / lesson, ignore=ignore, dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def bubblewrap() -> None:
    """What needs the sandbox is skipped where there is none; the rest is not."""
    if WHY:
        pytest.skip(WHY)


@pytest.fixture(scope="module")
def batch(bubblewrap: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole corpus, graded in one batch."""
    top = tmp_path_factory.mktemp("corpus")
    folder, out = top / "submissions", top / "out"
    for name in NAMES:
        shutil.copytree(CORPUS / name / "submission", folder / name)
        pad = tomllib.loads((CORPUS / name / "expect.toml").read_text("utf-8")).get("pad", 0)
        if pad:
            with open(folder / name / TARGET, "ab") as file:
                file.write(b"#" * pad)
    before, around = tree(folder), {path.name for path in top.iterdir()}
    done = grade(folder, out, "--limits", SHORT, SECRET_TOKEN=TOKEN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b[2J" not in done.stdout
    assert tree(folder) == before, "submissions changed"
    assert {path.name for path in top.iterdir()} == around | {"out"}, "files outside OUT"
    assert workers(out) == []
    return out


def test_the_corpus_is_large():
    assert len(NAMES) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_verdict(batch: Path, name: str):
    expected = tomllib.loads((CORPUS / name / "expect.toml").read_text("utf-8"))
    result = json.loads((batch / "results" / f"{name}.json").read_text("utf-8"))
    for key, statuses in expected["exercises"].items():
        lesson, _, exercise = key.partition(".")
        found = result["lessons"][lesson]["exercises"][exercise]
        assert found["status"] in statuses, json.dumps(found, indent=1)
    assert result["score"] == expected["score"]
    for note in expected.get("notes", ()):
        assert any(note in found for found in result["notes"]), result["notes"]


def test_the_results_are_as_the_schema_says(batch: Path):
    most = sum(entry.points for entry in manifest().values())
    for name, result in results(batch).items():
        keys = ["student", "aliases", "status", "score", "max_score", "secret", "sandbox", "folder", "content", "suite"]
        keys += ["notes", "seconds", "lessons"]
        assert list(result) == keys and result["student"] == name and result["sandbox"] == "bwrap"
        assert result["max_score"] == most
        tests = []
        for lesson in result["lessons"].values():
            assert lesson["score"] == sum(one["score"] for one in lesson["exercises"].values())
            for exercise in lesson["exercises"].values():
                assert set(exercise) == {"score", "max_score", "status", "likely_cause", "message", "tests"}
                assert exercise["status"] in STATUSES - {"grader-error"}, exercise["message"]
                assert (exercise["status"] == "passed") == (exercise["score"] == exercise["max_score"])
                tests += exercise["tests"]
        assert {test["status"] for test in tests} <= STATUSES
        assert len(tests) == len(manifest()) and sum(test["score"] for test in tests) == result["score"]


def test_nothing_of_the_machine_leaks(batch: Path):
    for path in (batch / "results").iterdir():
        text = path.read_text("utf-8")
        assert TOKEN not in text and "root:x:" not in text and "\\u001b" not in text, path.name


def test_the_gradebook_has_a_row_for_each(batch: Path):
    rows = gradebook(batch)
    assert [row["student"] for row in rows] == NAMES
    assert {row["student"]: int(row["score"]) for row in rows} == {
        name: result["score"] for name, result in results(batch).items()
    }


def test_solutions_earn_every_point(bubblewrap: None, tmp_path: Path):
    solved(tmp_path / "in" / "anna", *(path.name for path in SOLUTIONS.glob("lesson*")))
    done = check(str(tmp_path / "in"), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    result = results(tmp_path / "out")["anna"]
    lost = {
        (lesson, name): exercise["message"]
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


def test_same_secret_same_results(few: Path, undisturbed: Path, tmp_path: Path):
    assert grade(few, tmp_path / "again", "--jobs", "1", SECRET=SECRET).returncode == 0
    assert without_times(tmp_path / "again") == without_times(undisturbed)
    assert (tmp_path / "again/gradebook.csv").read_bytes() == (undisturbed / "gradebook.csv").read_bytes()


def test_a_wrong_answer_has_its_cause(undisturbed: Path):
    exercise = results(undisturbed)["student1"]["lessons"]["lesson04_gae"]["exercises"]["td_errors"]
    assert exercise["status"] == "wrong" and 0 < exercise["score"] < exercise["max_score"]
    assert exercise["likely_cause"] and set(exercise["likely_cause"]) == {"name", "why", "read"}


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_killed_and_started_again(few: Path, undisturbed: Path, tmp_path: Path, finished: int):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "testcases.grader", str(few), "--out", str(out), "--jobs", "2"]
    environment = {**os.environ, "SECRET": SECRET}
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    end = time.monotonic() + 120
    while len(list((out / "results").glob("*.json"))) < finished and time.monotonic() < end:
        time.sleep(0.02)
    if not finished:
        time.sleep(4.0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 10
    while workers(out) and time.monotonic() < end:
        time.sleep(0.05)
    assert workers(out) == []
    kept = {path.name: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}
    assert grade(few, out, SECRET=SECRET).returncode == 0
    assert without_times(out) == without_times(undisturbed)
    assert (out / "gradebook.csv").read_bytes() == (undisturbed / "gradebook.csv").read_bytes()
    assert {path.name for path in out.iterdir()} == {path.name for path in undisturbed.iterdir()}
    assert all((out / "results" / name).stat().st_mtime_ns == then for name, then in kept.items()), "graded twice"


def test_a_regrade_touches_only_what_changed(few: Path, undisturbed: Path, tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(few, folder)
    shutil.copytree(undisturbed, out)
    before = {path.name: path.stat().st_mtime_ns for path in (out / "results").iterdir()}
    (folder / "student2" / TARGET).write_text("", "utf-8")
    (out / "results" / "student3.json").write_text('{"student": "stu', "utf-8")
    assert grade(folder, out, SECRET=SECRET).returncode == 0
    after = {path.name: path.stat().st_mtime_ns for path in (out / "results").iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"student2.json", "student3.json"}
    assert results(out)["student2"]["lessons"]["lesson04_gae"]["score"] == 0
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


def archives(folder: Path) -> None:
    """Archives as they are handed in, sound and not."""
    good = (SOLUTIONS / TARGET).read_bytes()

    def zipped(name: str, *members: tuple[str, bytes]) -> bytes:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in members:
                archive.writestr(path, content)
        (folder / name).write_bytes(data.getvalue())
        return data.getvalue()

    def tarred(name: str, mode: str, *members: tuple[tarfile.TarInfo, bytes]) -> None:
        with tarfile.open(folder / name, mode) as archive:
            for info, content in members:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))

    inner = zipped("zip.zip", ("tutorial/" + TARGET, good))
    zipped("zip-in-zip.zip", ("homework.zip", inner))
    zipped("climbing.zip", ("../../../../tmp/pwned.py", b""), (f"x/../../{TARGET}", good), ("/tmp/pwned", b""))
    zipped("bomb.zip", (TARGET, b"#" * 30_000_000))
    zipped("thousands.zip", *((f"file{number}.py", b"") for number in range(6000)))
    tarred("tar.tar.gz", "w:gz", (tarfile.TarInfo(f"./anna/tutorial/{TARGET}"), good))
    tarred("xz.tar.xz", "w:xz", (tarfile.TarInfo(TARGET), good))
    tarred("bomb.tgz", "w:gz", (tarfile.TarInfo("zeros"), bytes(210_000_000)), (tarfile.TarInfo(TARGET), good))
    link = tarfile.TarInfo(TARGET)
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard = tarfile.TarInfo("lesson05_ppo_loss/ppo_loss.py")
    hard.type, hard.linkname = tarfile.LNKTYPE, "../../secret"
    pipe = tarfile.TarInfo("lesson03_policy_gradient/policy_gradient.py")
    pipe.type = tarfile.FIFOTYPE
    tarred("links.tar", "w", (link, b""), (hard, b""), (pipe, b""))
    device = tarfile.TarInfo(TARGET)
    device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 5
    tarred("device.tar", "w", (device, b""), (tarfile.TarInfo("n" * 5000 + "/" + TARGET), good))
    zipped("cased.zip", ("LESSON04_GAE/GAE.PY", b"="), ("lesson04_gae/GAE.py", b"="), (TARGET, good))
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


@pytest.fixture(scope="module")
def odd(bubblewrap: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that can be wrong with a submission before any of it runs."""
    top = tmp_path_factory.mktemp("odd")
    folder, out = top / "in", top / "out"
    folder.mkdir()
    (top / "secret").write_text("root:x:secret", "utf-8")
    archives(folder)
    for name in ODD:
        solved(folder / name, "lesson04_gae")
    for name in ("Anna", "anna"):
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


def row(out: Path, student: str) -> dict[str, str]:
    return next(row for row in gradebook(out) if row["student"] == student)


@pytest.mark.parametrize(
    "student",
    ["zip", "zip-in-zip", "tar", "xz", "device", "cased", "names", "loop", "anna", "Anna", "a b", "ünï", "[red]x"],
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
        ("Müller", "no-submission", "on the roster"),
        ("zip", "graded", "not on the roster"),
        ("Anna", "graded", "the same name"),
    ],
)
def test_odd_and_said_so(odd: Path, student: str, status: str, note: str):
    found = row(odd, student)
    assert found["status"] == status and note in found["notes"], found
    assert found["score"] == {"graded": found["score"], "no-submission": "0"}.get(status, "")


@pytest.mark.parametrize("archive", ["bomb"])
def test_bombs_do_not_go_off(odd: Path, archive: str):
    found = [one for one in gradebook(odd) if one["student"] == archive]
    assert len(found) == 2 and {row["score"] for row in found} == {""}
    assert any("larger than" in row["notes"] for row in found) and any(
        "unpacks to more" in row["notes"] for row in found
    )


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


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["no-such-folder"], "there is no folder"),
        ([str(SOLUTIONS)], "one subfolder (or archive) a student"),
        (["."], "OUT: expected a folder outside"),
        ([".", "--jobs", "0"], "JOBS: expected a whole number from 1"),
        ([".", "--sandbox", "docker"], "SANDBOX: expected bwrap or none"),
        (["testcases", "--roster", "no-such-file"], "ROSTER: expected a CSV file"),
    ],
)
def test_asked_in_a_wrong_way(bubblewrap: None, tmp_path: Path, arguments: list[str], says: str):
    out = ROOT / "runs" / "x" if arguments == ["."] else tmp_path / "out"
    done = check(*arguments, "--out", str(out))
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_an_empty_folder(bubblewrap: None, tmp_path: Path):
    (tmp_path / "in").mkdir()
    done = grade(tmp_path / "in", tmp_path / "out")
    assert done.returncode == 0 and gradebook(tmp_path / "out") == []


def test_without_a_sandbox_it_says_so(tmp_path: Path):
    solved(tmp_path / "in" / "anna", "lesson04_gae")
    done = grade(tmp_path / "in", tmp_path / "out", "--sandbox", "none")
    assert done.returncode == 0 and "NOT SANDBOXED" in done.stdout
    result = results(tmp_path / "out")["anna"]
    assert result["sandbox"] == "none" and result["notes"][0].startswith("NOT SANDBOXED")
    assert result["lessons"]["lesson04_gae"]["score"] == result["lessons"]["lesson04_gae"]["max_score"]
    assert "NOT SANDBOXED" in gradebook(tmp_path / "out")[0]["notes"]


def test_without_bubblewrap_it_says_how_to_get_it(tmp_path: Path):
    (tmp_path / "in").mkdir()
    done = grade(tmp_path / "in", tmp_path / "out", PATH=str(tmp_path))
    assert done.returncode == 2
    assert "apt install bubblewrap" in done.stderr and "SANDBOX=none" in done.stderr and "Traceback" not in done.stderr
