"""What a run leaves that is killed by SIGKILL: the next one on the machine removes it.

Each thing has the number of its process in its name, and only those of processes that are gone are touched.
"""

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import users
from .bubblewrap import WORKER_USERS

OURS = r"ppo-(?:student|course|check)-(\d{1,9})-\w+"


def sweep(temporary: Path | None = None, closed: Path = users.CLOSED) -> None:
    """Homes and courses in the folder for temporary files, and folders that are closed."""
    for folder in _of_the_dead(temporary or Path(tempfile.gettempdir()), OURS):
        if folder.is_dir() and not folder.is_symlink() and folder.lstat().st_uid in (os.geteuid(), *WORKER_USERS):
            with contextlib.suppress(RecursionError):
                shutil.rmtree(folder, ignore_errors=True)
    for record in _of_the_dead(closed, r"(\d{1,9})\.json"):
        with contextlib.suppress(OSError, ValueError):
            for folder, mode in json.loads(record.read_text("utf-8")).items():
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(folder, mode)
        record.unlink(missing_ok=True)


def _of_the_dead(place: Path, pattern: str) -> Iterator[Path]:
    for path in sorted(place.glob("*")):
        found = re.fullmatch(pattern, path.name)
        if found and not _is_alive(int(found[1])):
            yield path


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
