"""Run a lesson's suite at each save of its files, and show the first failure.

python -m testcases.harness.student.watching.watch [4]
"""

import argparse
import fcntl
import multiprocessing
import os
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ...catalog import CAPSTONE, TUTORIAL, course_lessons, lesson_names, section_of
from ...catalog import lesson as read_lesson
from .. import Result, hint, progress
from . import watch_server

KEYS = "n  next hint    h  text    q  quit"


class Watch:
    """One `make watch`: what has been saved, what has been found, and what is shown of it.

    Args:
        only: the lesson to watch until it is done; None for whichever is saved.
        server: the way to the warm process.
    """

    def __init__(self, only: str | None, server: Connection) -> None:
        self.only, self.server = only, server
        self.lesson = only or hint.next_open()
        self.run, self.saved, self.started, self.running = 0, "", 0.0, 0
        self.found: dict[int, dict[str, Any]] = {}
        self.died = ""

    def saved_files(self, paths: Iterable[str]) -> None:
        """Run the lessons of these files anew."""
        own = sorted({lesson for path in paths if (lesson := lesson_of(Path(path)))})
        if self.only:
            concerned = self.only.startswith(CAPSTONE) and own or self.only in own
            own = [self.only] if concerned else []
        if own:
            self.lesson = own[0]
            names = sorted({Path(path).name for path in paths if lesson_of(Path(path)) in own}) or ["a file"]
            self.ask(own, f"{', '.join(names[:3])} saved")

    def ask(self, lessons: list[str], why: str) -> None:
        self.run += 1
        self.found, self.died, self.saved, self.started = {}, "", why, time.monotonic()
        self.server.send({"run": self.run, "lessons": lessons})

    def hear(self, message: dict[str, Any]) -> None:
        """Handle a message of the warm process."""
        if message["run"] != self.run:
            return
        if "loading" in message:
            print(f"loading {message['loading']} (once) ...", flush=True)
        elif "started" in message:
            self.running = message["started"]
        elif "case" in message:
            self.found[message["case"]] = message
        elif "explained" in message:
            self._explained(message["explained"], message["text"])
        elif "text" in message:
            self.died = message["text"]
        elif "ended" in message and self.running:
            self.running -= 1
            if message["ended"]:
                self.died = self.died or f"The process ended with {message['ended']}: does the code end Python itself?"
            if not self.running:
                self._finished()

    def first_failure(self) -> dict[str, Any] | None:
        failed = [number for number, found in self.found.items() if found["result"].status == "failed"]
        return self.found[min(failed)] if failed else None

    def _finished(self) -> None:
        results: dict[str, dict[str, Result]] = {}
        for found in self.found.values():
            results.setdefault(found["node"], {})[found["label"]] = found["result"]
        before, finished = progress.so_far(), []
        if not self.died:
            progress.update(results, whole=True)
            finished = progress.finished([self.lesson], before, after := progress.so_far())
        self.show(finished)
        if finished:  # On to the next lesson, or to whichever is saved.
            self.only, self.lesson = None, progress.following(self.lesson, after) or self.lesson
        if first := self.first_failure():
            self.server.send({"run": self.run, "explain": first["case"]})

    def _explained(self, number: int, text: str) -> None:
        known = self.found.get(number)
        if known and text and text != known["text"]:
            new = [line for line in text.splitlines() if line not in known["text"].splitlines()]
            known["text"] = text
            if can_clear():
                self.show()
            else:
                print("\n".join(new), flush=True)

    def show(self, finished: Iterable[str] = ()) -> None:
        """The verdict, the bar and the keys.

        Args:
            finished: what to say of a lesson that is done now.
        """
        seconds = time.monotonic() - self.started
        state = progress.so_far()
        first = self.first_failure()
        if can_clear():
            print("\x1b[2J\x1b[H", end="")
        print(f"{self.lesson} · {self.saved} at {time.strftime('%H:%M:%S')} · {seconds:.1f} s\n")
        if self.died:
            print(self.died)
        elif first:
            failed = sum(found["result"].status == "failed" for found in self.found.values())
            print(first["text"] + (f"\n({failed - 1} more failed)" if failed > 1 else ""))
        elif all(found["result"].status == "passed" for found in self.found.values()):
            print(f"All {len(self.found)} tests of {self.lesson} pass.")
        else:
            print("Nothing is wrong so far.")
        print("\n" + "\n".join(progress.bars([self.lesson], state)))
        step = progress.next_step([self.lesson], state) or progress.next_step(course_lessons(), state)
        print("\n".join([*finished] or [step]))
        if offer := progress.the_end([self.lesson], state):
            print(offer)
        if sys.stdin.isatty():
            print(KEYS)
        sys.stdout.flush()

    def press(self, key: str) -> bool:
        """Handle a key; False to quit."""
        exercise = (self.first_failure() or {}).get("exercise")
        if key == "n":
            print(f"\n{hint.next_hint(read_lesson(self.lesson), exercise)}", flush=True)
        elif key == "h":
            name = exercise or progress.open_exercise(self.lesson, progress.so_far())
            print(f"\n{section_of(self.lesson, name)}", flush=True)
        return key != "q"


def lesson_of(path: Path) -> str | None:
    """The lesson that a file is part of."""
    parts = path.relative_to(TUTORIAL).parts if path.is_relative_to(TUTORIAL) else ()
    return parts[0] if len(parts) > 1 and parts[0] in lesson_names() and path.suffix == ".py" else None


def can_clear() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def watch_files(end: Connection) -> None:
    """Send the paths of each group of changes, or a text where that fails; of a thread."""
    from watchfiles import watch

    try:
        for changes in watch(
            TUTORIAL,
            watch_filter=lambda change, path: path.endswith(".py"),
            debounce=400,
            step=20,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            end.send(sorted({path for _, path in changes}))
    except Exception as error:
        end.send(f"cannot watch tutorial/: {type(error).__name__}: {error}")


@contextmanager
def single_keys() -> Iterator[None]:
    """In this block keys are read one by one; without a terminal, line by line."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(0)
    tty.setcbreak(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def is_alone() -> bool:
    """Whether no other `make watch` runs here; the answer holds until this process ends."""
    progress.FOLDER.mkdir(parents=True, exist_ok=True)
    lock = os.open(progress.FOLDER / "watch.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def loop(session: Watch, files: Connection) -> None:
    keyboard = 0
    sources: list[Any] = [files, session.server, keyboard]
    while True:
        for source in wait(sources):
            if source == keyboard:
                read = os.read(keyboard, 1 << 16)
                if not read:
                    sources.remove(keyboard)
                elif not all(session.press(key) for key in read.decode(errors="replace")):
                    return
            elif source is files:
                paths = files.recv()
                print(paths, flush=True) if isinstance(paths, str) else session.saved_files(paths)
            else:
                try:
                    session.hear(session.server.recv())
                except (EOFError, ConnectionResetError):
                    print("The process that runs the tests has ended; start make watch again.")
                    return


@progress.said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(prog="make watch [LESSON=4]", description="Run a lesson at each save.")
    parser.add_argument("lesson", nargs="?", help="number or folder name; whichever is saved, if left out")
    options = parser.parse_args()
    only = read_lesson(options.lesson).name if options.lesson else None
    if not is_alone():
        print("Another make watch runs here as well; both show the same.")
    spawn = multiprocessing.get_context("spawn")
    server, its_end = spawn.Pipe()
    process = spawn.Process(target=watch_server.serve, args=(TUTORIAL, its_end))
    hears = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for this process only.
    process.start()
    signal.signal(signal.SIGINT, hears)
    its_end.close()
    files, end = spawn.Pipe(duplex=False)
    threading.Thread(target=watch_files, args=(end,), daemon=True).start()
    session = Watch(only, server)
    try:
        print(f"Watching {'tutorial/' + only if only else 'tutorial/'}; loading torch (once) ...", flush=True)
        session.ask([session.lesson], "make watch began")
        with single_keys():
            loop(session, files)
        print()
    except KeyboardInterrupt:
        print()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process.kill()


if __name__ == "__main__":
    main()
