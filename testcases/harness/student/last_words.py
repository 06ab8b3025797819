"""A plugin: where a run was when its process ended without a word: a crash inside a library, a closed window, a killed
process.

Nothing in the process can say that any more. So each test of a lesson notes beforehand where it is, Python adds the
line if it crashes, and the next run reads what is left.
"""

import faulthandler
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

import pytest

from ..catalog import ROOT, read_lesson
from ..execution.messages import Call
from .progress import FOLDER

NAME = "running-{}"
LEAVE = os._exit


class LastWords:
    """The hooks of a run; `folder` is whose code it runs, None for the solutions."""

    def __init__(self, config: pytest.Config, folder: Path | None) -> None:
        self.config = config
        self.note: TextIO | None = None
        """In its first line stands the folder. Each test adds a line with its lesson and exercise."""
        with suppress(OSError):  # The course's folder cannot be written to.
            if folder:
                FOLDER.mkdir(exist_ok=True)
                self.note = (FOLDER / NAME.format(os.getpid())).open("w", encoding="utf-8")
                print(folder.resolve(), file=self.note)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        if self.note:
            if terminal := self.config.pluginmanager.getplugin("terminalreporter"):
                for sentence in left_behind():
                    terminal.write_line(sentence)
            faulthandler.enable(self.note)  # in place of the terminal, to which pytest has Python write a crash

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Any:
        """`os._exit` is an error like `sys.exit`: else pytest would end with a status that means nothing."""
        process = os.getpid()

        def stay(status: int) -> NoReturn:
            if os.getpid() != process:
                LEAVE(status)  # a process that the call has forked
            said = f"os._exit({status}) would end the whole process and save nothing, so return or raise instead"
            raise SystemExit(said)

        os._exit = stay
        try:
            return (yield)
        finally:
            os._exit = LEAVE

    def end_process(self, call: Call, where: str) -> NoReturn:
        """The last resort: an endless loop that swallows what is raised in it would keep pytest for ever."""
        if capture := self.config.pluginmanager.getplugin("capturemanager"):
            capture.suspend_global_capture(in_=True)
        said = (
            f"{call.lesson} · {call.exercise} never ends, and it catches whatever would stop it, so pytest ends here, "
            f"at {where}. Is there a loop around `except:` or `except BaseException:`? Catch only the error you expect."
        )
        print(f"\n{said}", file=sys.__stderr__, flush=True)
        self.pytest_unconfigure()
        LEAVE(1)

    def pytest_unconfigure(self) -> None:
        """The process ends as it should."""
        if self.note:
            faulthandler.disable()
            self.note.close()
            Path(self.note.name).unlink(missing_ok=True)


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
