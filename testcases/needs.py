"""What some tests need besides Python, and what to say where it is not there: they are skipped, never failed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache

from testcases.grader.sandbox.sandbox import NoSandbox, check_sandbox

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TRY = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "about:blank"]
ELSEWHERE = "nothing enables them here, a Linux machine or container does"


def no_sandbox() -> str:
    """Why the tests of the sandbox cannot run here, and what enables them; nothing where they can."""
    try:
        check_sandbox("bwrap")
    except NoSandbox:
        if sys.platform != "linux":
            return f"the grader's sandbox needs Linux: {ELSEWHERE}"
        programs = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}
        missing = [name for name in programs if not shutil.which(name)]
        if missing:
            packages = dict.fromkeys(programs[name] for name in missing)
            return f"no {', '.join(missing)} on the PATH; Debian and Ubuntu: apt install {' '.join(packages)}"
        return (
            "bubblewrap may make no namespaces here. In a container nothing enables them from inside: start it with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        )
    return ""


@cache
def no_chromium() -> str:
    """Why the tests in a browser cannot run here, and what enables them; nothing where they can."""
    if CHROMIUM is None:
        return "no chromium on the PATH; Debian: apt install chromium; macOS: brew install --cask chromium"
    try:
        done = subprocess.run([CHROMIUM, *TRY], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{CHROMIUM} does not start here: {error}"
    last = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
    return "" if done.returncode == 0 else f"{CHROMIUM} does not start here: {last[0][:120]}"
