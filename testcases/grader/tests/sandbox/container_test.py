"""`make check` in a container, as its ordinary user or as its root, who may mount nothing.

It is simulated: Docker's default capabilities, and as in a container every user can reach the Python that runs this.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from testcases.grader.tests.forks import LONGEST
from testcases.grader.tests.running import TARGET, results
from testcases.harness.catalog import ROOT, SOLUTIONS

USER = "--reuid=1000 --regid=1000 --clear-groups".split()
"""As in the Containerfile."""
CAPABILITIES = (
    "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,"
    "+mknod,+audit_write,+setfcap"
)
OPEN_PYTHON = """
if test "${0#"$HOME"}" != "$0"; then
    mount --bind "$0" /mnt && mount -t tmpfs -o mode=755 tmpfs "$HOME" && mkdir -p "$0" && mount --move /mnt "$0"
fi && HOME=/tmp exec "$@"
"""
"""Where Python is below /root, nothing else is."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0 or not which("setpriv"),
        reason="a container is simulated by root, with setpriv, on Linux",
    ),
]


@pytest.fixture
def place() -> Iterator[Path]:
    """Which every user can reach, as pytest's own folders cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def check(folder: Path, *user: str, sandbox: str = "bwrap", before: str = "") -> subprocess.CompletedProcess[str]:
    """Grade a right answer, with lines before it."""
    (folder / "in/ann" / TARGET).parent.mkdir(parents=True)
    source = (SOLUTIONS / TARGET).read_text("utf-8").replace("from __future__ import annotations\n", "")
    (folder / "in/ann" / TARGET).write_text(before + source, "utf-8")
    (folder / "marks").mkdir()
    os.chown(folder / "marks", 1000, 1000)
    told = [str(folder / "in"), "--out", str(folder / "marks/out"), "--lessons", "td_errors"]
    container = ["unshare", "--mount", "--propagation", "private", "sh", "-c", OPEN_PYTHON, sys.base_prefix]
    container += ["setpriv", *user, f"--bounding-set={CAPABILITIES}", "--inh-caps=-all"]
    command = [*container, sys.executable, "-m", "testcases.grader", *told, "--sandbox", sandbox]
    home = {**os.environ, "HOME": os.path.expanduser("~root")}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST, env=home, check=False)


def test_grades_with_the_capabilities_of_a_container(bubblewrap: None, place: Path):
    done = check(place, *USER)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(place / "marks/out").values()
    assert result["score"] == result["max_score"] > 0 and result["sandbox"] == "bwrap"


LOOKS = """import os, time
assert os.getuid() > 60_000 and not os.getgroups() and not os.access("/proc/1/environ", os.R_OK)
for place in ("/tmp/loot", "/dev/shm/loot"):
    assert not os.path.exists(place)
    if os.access(os.path.dirname(place), os.W_OK):
        open(place, "w").close()
if os.fork() == 0:
    time.sleep(1000)
mine = [name for name in os.listdir("/proc") if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid()]
assert len(mine) == 2, mine
"""


def test_without_a_sandbox_each_worker_is_another_user_and_leaves_nothing(place: Path):
    done = check(place, sandbox="none", before=LOOKS)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(place / "marks/out").values()
    assert result["score"] == result["max_score"] > 0, result["doubts"]
    assert result["notes"][0].startswith("NOT SANDBOXED: its code ran as another user, which had no network")
    assert not Path("/tmp/loot").exists() and not Path("/dev/shm/loot").exists()
