"""Where a run was when its process ended without a word: a crash inside a library, a closed window, a killed process.

Nothing in the process can say that any more. So each test of a lesson notes beforehand where it is, Python adds the
line if it crashes, and the next run reads what is left.
"""

import faulthandler
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, TextIO

from ..catalog import ROOT, read_lesson
from .progress import FOLDER

NAME = "running-{}"
LEAVE = os._exit


def note(subject: Path) -> TextIO:
    """The file of this process, in whose first line stands whose code it runs. Each test adds a line with its lesson
    and exercise.

    Raises:
        OSError: the course's folder cannot be written to.
    """
    FOLDER.mkdir(exist_ok=True)
    file = (FOLDER / NAME.format(os.getpid())).open("w", encoding="utf-8")
    print(subject.resolve(), file=file)
    return file


def take_back(file: TextIO) -> None:
    """The process ends as it should."""
    faulthandler.disable()
    file.close()
    Path(file.name).unlink(missing_ok=True)


def end_process(file: TextIO | None, lesson: str, exercise: str, where: str) -> NoReturn:
    """The last resort: an endless loop that swallows what is raised in it would keep pytest for ever."""
    said = (
        f"{lesson} · {exercise} never ends, and it catches whatever would stop it, so pytest ends here, at {where}. "
        "Is there a loop around `except:` or `except BaseException:`? Catch only the error you expect."
    )
    print(f"\n{said}", file=sys.__stderr__, flush=True)
    if file:
        take_back(file)
    LEAVE(1)


def left_behind() -> Iterator[str]:
    """A sentence for each run that has ended without a word; each is said once."""
    for path in sorted(FOLDER.glob(NAME.format("*"))):
        with suppress(OSError, ValueError, LookupError):  # another process has it, or it ended before its first test
            if _is_alive(int(path.name.removeprefix(NAME.format("")))):
                continue
            text = path.read_text("utf-8", "replace")
            path.unlink()
            said = re.findall(r"^lesson\w+ · .*", text, re.MULTILINE)[-1]
            lesson, _, exercise = said.partition(" · ")
            file = Path(text.splitlines()[0], lesson, read_lesson(lesson).file_of(exercise))
            lines = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', text)
            shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
            place = f"at {shown}:{lines[0]}" if lines else f"somewhere in {shown}"
            yield f"{said}: your last run ended here without a message, {place}. Did a library crash?"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


@contextmanager
def staying() -> Iterator[None]:
    """In this block `os._exit` is an error like `sys.exit`: else pytest would end with a status that means nothing."""
    process = os.getpid()

    def stay(status: int) -> NoReturn:
        if os.getpid() != process:
            LEAVE(status)  # a process that the call has forked
        raise SystemExit(f"os._exit({status}) would end the whole process and save nothing, so return or raise instead")

    os._exit = stay
    try:
        yield
    finally:
        os._exit = LEAVE
