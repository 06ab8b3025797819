"""What make does before anything is there: nothing half installed counts as whole, and each failure is one sentence."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from testcases.harness.catalog import ROOT
from testcases.install import cause_of, pip

INSTALL = ROOT / "testcases" / "install.py"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


def wheel(folder: Path) -> None:
    """A package of one line."""
    with zipfile.ZipFile(folder / "tiny_thing-1.0-py3-none-any.whl", "w") as packed:
        packed.writestr("tiny_thing.py", "whole = True\n")
        packed.writestr("tiny_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        packed.writestr(
            "tiny_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr("tiny_thing-1.0.dist-info/RECORD", "tiny_thing.py,,\n")


def install(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "lock").write_text("tiny-thing==1.0\n")
    places = OFFLINE | {"PIP_FIND_LINKS": str(folder)} | environment
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [sys.executable, str(INSTALL), "venv", "lock"]
    return subprocess.run(command, cwd=folder, env=kept | places, capture_output=True, text=True, check=False)


def is_whole(folder: Path) -> bool:
    code = "import tiny_thing; assert tiny_thing.whole"
    return subprocess.run([folder / "venv/bin/python", "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_what_was_interrupted_is_installed_anew(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    failed = install(tmp_path)
    assert failed.returncode == 1 and failed.stderr.startswith("error: the package index does not have"), failed.stderr
    assert (tmp_path / "venv" / ".installing-lock").exists()

    wheel(tmp_path)
    done = install(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "installing what the course needs into venv (once) ..." and done.stderr == ""
    assert is_whole(tmp_path) and not (tmp_path / "venv" / ".installing-lock").exists()

    (place,) = tmp_path.glob("venv/lib/python*/site-packages")
    (place / "tiny_thing.py").write_text("")  # as a machine that lost its power leaves it
    (place / "pip" / "__main__.py").unlink()
    (tmp_path / "venv" / ".installing-lock").touch()
    assert install(tmp_path).returncode == 0
    assert is_whole(tmp_path)


@pytest.mark.slow
def test_without_a_way_to_the_index(tmp_path: Path) -> None:
    """No network, then a proxy that does not answer."""
    for environment, says in (
        ({"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}, "no package index answered"),
        ({"PIP_PROXY": "http://127.0.0.1:9"}, "the proxy did not answer"),
    ):
        failed = install(tmp_path, PIP_RETRIES="1", PIP_NO_INDEX="", **environment)
        assert failed.returncode == 1 and failed.stderr.startswith(f"error: {says}"), failed.stderr
        assert len(failed.stderr.splitlines()) == 1 and "then run make again" in failed.stderr


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "venv").write_text("a file in its place")
    failed = install(tmp_path)
    assert failed.returncode == 1 and failed.stderr.startswith("error: expected to write venv, got"), failed.stderr


def test_too_little_space(tmp_path: Path) -> None:
    command = [sys.executable, str(INSTALL), "venv", "lock", "--gigabytes", "1e9"]
    (tmp_path / "lock").write_text("")
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and failed.stderr.startswith("error: expected 1000000000.0 GB free"), failed.stderr


def python_that(does: str, venv: Path) -> None:
    """A stand-in for an environment's interpreter."""
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").write_text(f"#!/bin/sh\n{does}\n")
    (venv / "bin" / "python").chmod(0o755)


def test_what_is_added_and_was_interrupted_leaves_alone_what_was_there(tmp_path: Path) -> None:
    python_that('echo "$@" >> asked', tmp_path / "venv")
    (tmp_path / "lab.lock").write_text("tiny-thing==1.0\n")
    for mark in ("lab", "course"):
        (tmp_path / "venv" / f".installing-{mark}").touch()
    command = [sys.executable, str(INSTALL), "venv", "lab.lock", "--constraints", "course.lock"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    anew, rest = [line for line in (tmp_path / "asked").read_text().splitlines() if "-r lab.lock" in line]
    assert "--force-reinstall --no-deps" in anew and "--force" not in rest and "-c course.lock" in rest
    assert [path.name for path in (tmp_path / "venv").glob(".installing*")] == [".installing-course"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full: nothing enables it here")
def test_a_disk_that_is_full_while_pip_writes(tmp_path: Path) -> None:
    python_that("echo 'ERROR: [Errno 28] No space left on device'; exit 1", tmp_path)
    (tmp_path / "install.log").symlink_to("/dev/full")
    with pytest.raises(SystemExit, match=r"^error: no space is left for .*; then run make again$"):
        pip(tmp_path, [], [])


@pytest.mark.parametrize(
    "said, cause",
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
            "no space is left",
        ),
        ("ERROR: [Errno 30] Read-only file system: '/x/venv/lib'\n", "venv or the folder of temporary files"),
        ("WARNING: Retrying ... NewConnectionError('... [Errno -2] Name or service not known')\n", "no package index"),
        ("... SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] ...'))\n", "pip does not trust"),
        ("Collecting a\nERROR: something else\nmore\n", "pip failed (ERROR: something else)"),
    ],
)
def test_each_cause_is_one_sentence(said: str, cause: str) -> None:
    found = cause_of(said, Path("venv"))
    assert found.startswith(cause) and "\n" not in found
