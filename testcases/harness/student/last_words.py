"""Where a run was when its process ended without a word: a crash inside a library, a closed window, a killed process.

Nothing in the process can say that any more. So each test of a lesson notes beforehand where it is, Python adds the
line if it crashes, and the next run reads what is left.
"""

import faulthandler
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from ..catalog.lessons import ROOT
from ..catalog.lessons import lesson as read_lesson
from ..catalog.points import Entry
from .progress import FOLDER

NAME = "running-{}"


class Note:
    """Where this process is; taken back when it ends as it should.

    Raises:
        OSError: the course's folder cannot be written to.
    """

    def __init__(self, subject: Path) -> None:
        FOLDER.mkdir(exist_ok=True)
        self._subject, self._path = subject, FOLDER / NAME.format(os.getpid())
        self._file = self._path.open("w+", encoding="utf-8")

    def at(self, entry: Entry) -> None:
        file = self._subject / entry.lesson / read_lesson(entry.lesson).file_of(entry.exercise)
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{entry.lesson} · {entry.exercise}\n{file}\n")
        self._file.flush()
        faulthandler.enable(self._file)  # in place of the terminal, to which pytest has it write

    def take_back(self) -> None:
        faulthandler.disable()
        self._file.close()
        self._path.unlink(missing_ok=True)


def left_behind() -> Iterator[str]:
    """A sentence for each run that has ended without a word; each is said once."""
    for path in sorted(FOLDER.glob(NAME.format("*"))):
        with suppress(OSError, ValueError):  # another process has it, or it ended before its first test
            if _is_alive(int(path.name.removeprefix(NAME.format("")))):
                continue
            text = path.read_text("utf-8", "replace")
            path.unlink()
            said, name, *dump = text.splitlines()
            file = Path(name)
            lines = [found[1] for one in dump if (found := re.search(rf'File "{re.escape(name)}", line (\d+)', one))]
            shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
            place = f"at {shown}:{lines[0]}" if lines else f"somewhere in {shown}"
            yield f"{said}: your last run ended here without a message, {place}. Did a library crash?"


def _is_alive(process: int) -> bool:
    if os.name == "nt":
        return False  # there the file cannot be removed while its process has it open
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def staying() -> Iterator[None]:
    """In this block `os._exit` is an error like `sys.exit`: else pytest would end with a status that means nothing."""
    leave, process = os._exit, os.getpid()

    def stay(status: int) -> NoReturn:
        if os.getpid() != process:
            leave(status)  # a process that the call has forked
        raise SystemExit(f"os._exit({status}) would end the whole process and save nothing, so return or raise instead")

    os._exit = stay
    try:
        yield
    finally:
        os._exit = leave
