"""Installs exact versions into a virtual environment, with a bar: what make calls before anything is there.

While what a lock names is not whole, the environment holds a file `.installing-LOCK`. The next call for that lock then
puts its files there anew, since what an interrupted one has left looks whole to pip; what was there before stays.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

WIDTH = 24
PIP = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--no-compile"]
CAUSES = {
    "No space left on device|Disk quota exceeded": "no space is left for {venv} or for temporary files in {tmp}",
    "Read-only file system|Permission denied": "{venv} or the folder of temporary files, {tmp}, cannot be written",
    "ProxyError|Cannot connect to proxy|Tunnel connection failed": (
        "the proxy did not answer; expected HTTPS_PROXY=http://host:port of one that lets pip through"
    ),
    "CERTIFICATE_VERIFY_FAILED": "pip does not trust the index; expected PIP_CERT=FILE with the certificates of yours",
    "NewConnectionError|name resolution|Name or service|unreachable|ConnectTimeout|ReadTimeout": (
        "no package index answered; expected a network, this once (behind a proxy: HTTPS_PROXY=http://host:port)"
    ),
    "No matching distribution": "the package index does not have every version for this Python and machine",
}
"""What pip says, and what is the matter."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("venv", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--what", default="what the course needs")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="that must be free for a new environment")
    parser.add_argument("--first", default="", help="the package of the lock whose build nothing else may choose")
    parser.add_argument("--constraints", default="")
    options = parser.parse_args()
    print(f"installing {options.what} into {options.venv} (once) ...", flush=True)
    began, mark = time.monotonic(), options.venv / f".installing-{options.lock.stem}"
    again = ["--force-reinstall"] if mark.exists() else []
    make(options.venv, mark, options.gigabytes)
    bound = ["-c", options.constraints] if options.constraints else []
    lines = [line.strip() for line in options.lock.read_text("utf-8").splitlines() if line[:1].isalnum()]
    if options.first:
        pip(options.venv, [*again, *(line for line in lines if line.startswith(f"{options.first}=="))], lines)
    if again and bound:
        pip(options.venv, [*again, "--no-deps", "-r", str(options.lock)], lines)
        again = []
    pip(options.venv, [*again, *bound, "-r", str(options.lock)], lines)
    compile_all(options.venv)
    mark.unlink()
    print(f"installed in {time.monotonic() - began:.0f} s", flush=True)


def make(venv: Path, mark: Path, gigabytes: float) -> None:
    """The environment with pip in it, if it is not there; marked as not whole."""
    python = venv / "bin" / "python"
    try:
        venv.mkdir(parents=True, exist_ok=True)
        mark.touch()
        free = shutil.disk_usage(venv).free / 1e9
    except OSError as error:
        refuse(f"expected to write {venv}, got {error.strerror}; copy the course into a folder of yours, and run make")
    if not python.exists() and free < gigabytes:
        refuse(f"expected {gigabytes:.1f} GB free for {venv}, got {free:.1f}; make space and run make again")
    for clear in ([], ["--clear"]):  # An environment that was killed in the making has half a pip.
        if _runs([str(python), "-m", "pip", "--version"]):
            return
        done = subprocess.run([sys.executable, "-m", "venv", *clear, str(venv)], capture_output=True, text=True)
        mark.touch()
        if done.returncode and clear:
            refuse(f"cannot make {venv}: {cause_of(done.stdout + done.stderr, venv)}")


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def pip(venv: Path, arguments: list[str], lines: Iterable[str]) -> None:
    """All that it says goes to a file, at the end: a full disk then takes no sentence away."""
    command = [str(venv / "bin" / "python"), *PIP, *arguments]
    bar = Bar(venv, {_plain(line.partition("==")[0]) for line in lines})
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        reader = threading.Thread(target=bar.read, args=(running.stdout,), daemon=True)
        reader.start()
        try:
            while reader.is_alive():
                bar.draw()
                reader.join(0.5)
        finally:
            bar.clear()
    said, kept = "".join(bar.said), ""
    with contextlib.suppress(OSError):
        (venv / "install.log").write_text(said, "utf-8")
        kept = f". All that pip said: {venv / 'install.log'}"
    if running.returncode:
        refuse(f"{cause_of(said, venv)}; then run make again{kept}")


def compile_all(venv: Path) -> None:
    """On all cores, where pip would use one; a package's template that is not Python counts for nothing."""
    print("compiling ...", flush=True)
    places = [str(place) for place in venv.glob("lib/python*/site-packages")]
    subprocess.run([str(venv / "bin" / "python"), "-m", "compileall", "-q", "-j", "0", *places], capture_output=True)


def cause_of(said: str, venv: Path) -> str:
    for pattern, sentence in CAUSES.items():
        if re.search(pattern, said):
            return sentence.format(venv=venv, tmp=os.environ.get("TMPDIR", "/tmp"))
    errors = [line for line in said.splitlines() if line.startswith("ERROR")] or said.split("\n")
    return f"pip failed ({errors[-1].strip()[:200]})"


class Bar:
    """How far pip is: half for what it has found, half for what lies in the environment."""

    def __init__(self, venv: Path, names: set[str]) -> None:
        self._venv, self._names, self._found = venv, names, set[str]()
        self._doing, self._began = "", time.monotonic()
        self.said: list[str] = []

    def read(self, lines: TextIO) -> None:
        for line in lines:
            self.said.append(line)
            if found := re.match(r"(?:Collecting |Requirement already satisfied: )([\w.-]+)", line):
                self._found.add(_plain(found[1]))
            if line.startswith("  Downloading "):
                self._doing = "downloading " + " ".join(line.split()[1:]).rpartition("/")[2]
            elif line.startswith("Installing collected"):
                self._doing = "unpacking"

    def draw(self) -> None:
        there = {
            _plain(path.name.partition("-")[0]) for path in self._venv.glob("lib/python*/site-packages/*.dist-info")
        }
        share = (len(self._found & self._names) + len(there & self._names)) / (2 * max(1, len(self._names)))
        full, seconds = int(WIDTH * share), time.monotonic() - self._began
        told = f"[{'#' * full:.<{WIDTH}}] {share:4.0%} {seconds:4.0f} s  {self._doing}"
        self._write(told[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).strip().lower()


def refuse(text: str) -> None:
    sys.exit(f"error: {text}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped; the same command goes on, and puts there anew what may be half there")
