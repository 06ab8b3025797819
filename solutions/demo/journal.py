"""What a run has finished so far, on disk, so that the same command with RESUME=1 goes on from there."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ppo_by_hand.core.checkpoints import (
    CHECKPOINT_FILE,
    CheckpointFolder,
    checkpoints_in,
    remove_checkpoint,
    updates_done,
)
from ppo_by_hand.core.checks import DivergedError
from ppo_by_hand.core.files import remove_empty, write_whole
from ppo_by_hand.core.written import Written

FOLDER = "unfinished"
FINISHED = "finished"
"""What a finished run needs to go on for more updates: its journal and its last checkpoint."""
RUNS = ("no_kl", "ppo")
"""Names of the PPO runs; what else lies beside their checkpoints is the user's, such as a copy of them."""
AGAIN = "start anew without RESUME=1, where a run is with OVERWRITE=1 (--overwrite)"
VERSION = 1
"""Of what a journal holds; a run of another version cannot be resumed."""


FINE, WRONG, STOPPED, CTRL_C, TERMINATED = 0, 1, 3, 130, 143
"""Exit codes of a run: for a scheduler. argparse has 2."""


class Journal:
    """Facts about the finished parts of a run in `OUT/unfinished/journal.json`, and PPO's checkpoints beside it.

    Args:
        out: the run's folder, made ready by `prepare_output`.
        settings: all that decides the run's numbers, as plain data; a resumed run must have the same.
        resume: read what an interrupted run has left, instead of starting a new journal.

    Attributes:
        facts: what was recorded, by name.

    Raises:
        ValueError: there is nothing to resume, or the run in `out` has other settings.
    """

    def __init__(self, out: Path, settings: Mapping[str, Any], resume: bool) -> None:
        is_finished = _file(out / FINISHED).is_file() and not _file(out / FOLDER).is_file()
        self.folder = out / (FINISHED if resume and is_finished else FOLDER)
        # As JSON gives them back: tuples have become lists.
        wanted = json.loads(json.dumps({"version": VERSION, **settings}))
        if resume:
            self.facts = self._read(wanted)
        else:
            self.folder.mkdir(exist_ok=True)
            self.facts = {}
            self.record(settings=wanted)

    @property
    def file(self) -> Path:
        return _file(self.folder)

    def record(self, **facts: Any) -> None:
        """Add facts, in one piece: a killed run leaves the journal as it was before or as it is after."""
        self.facts |= facts
        with write_whole(self.file) as unfinished:
            unfinished.write_text(json.dumps(self.facts), encoding="utf-8")

    def checkpoints(self, name: str) -> CheckpointFolder:
        """Where the PPO run of this name keeps its checkpoints."""
        return CheckpointFolder(self.folder / name)

    def finish(self, may_go_on: bool = False) -> None:
        """The run's results are written: what was kept for going on is not needed any more.

        Args:
            may_go_on: keep the newest checkpoint in `OUT/finished`, for more updates.
        """
        kept = self._saved()
        for old in kept[:-1] if may_go_on else kept:
            remove_checkpoint(old)
        if may_go_on:
            self._move(FINISHED)
            return
        self.file.unlink()
        remove_empty([self.folder, *self.folder.glob("*/")])

    def reopen(self, num_updates: int) -> None:
        """A finished run is unfinished again, if it is to have more updates; nothing for one that is unfinished.

        Raises:
            ValueError: it has had all of them, or its last checkpoint is gone.
        """
        if self.folder.name == FOLDER:
            return
        done = max((updates_done(one) for one in self._saved() if (one / CHECKPOINT_FILE).is_file()), default=0)
        if not done:
            raise ValueError(f"expected the last checkpoint of the finished run in {self.folder}, got none; {AGAIN}")
        if num_updates <= done:
            raise ValueError(
                f"expected more updates than the {done} of the finished run in {self.folder.parent}, got num_updates "
                f"{num_updates}; raise it in SET, or {AGAIN}"
            )
        self._move(FOLDER)

    def _saved(self) -> list[Path]:
        return [one for name in RUNS for one in checkpoints_in(self.folder / name)]

    def _move(self, name: str) -> None:
        """Give the folder the other name; what a user has put under that one makes way."""
        target = self.folder.with_name(name)
        Written(target.parent).make_way(target.rglob("*"))
        remove_empty([target, *target.rglob("*")])
        self.folder = self.folder.rename(target)

    def _read(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if not self.file.is_file():
            raise ValueError(f"expected an unfinished run in {self.folder.parent} to go on with, got none; {AGAIN}")
        try:
            facts: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
            found = dict(facts["settings"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"expected {self.file} as a run has written it, got a damaged file; {AGAIN}") from error
        for name in wanted:
            if wanted[name] != found.get(name):
                raise ValueError(
                    f"expected the settings of the unfinished run in {self.folder.parent}, got {name} {wanted[name]!r} "
                    f"where it has {found.get(name)!r}; give the same, or {AGAIN}"
                )
        return facts


def _file(folder: Path) -> Path:
    return folder / "journal.json"


def what_is_kept(out: Path) -> str:
    """How far a run that was stopped is saved, and how to go on."""
    if not (out / FOLDER).is_dir():
        return "nothing had begun"
    return f"{_newest_checkpoint(out)}; to go on, add RESUME=1 (or --resume) to the same command"


def _newest_checkpoint(out: Path) -> str:
    found = sorted((out / FOLDER).glob("*/update-*/trainer.pt"), key=lambda file: file.stat().st_mtime)
    return f"the newest checkpoint is {found[-1].parent}" if found else "there is no checkpoint yet"


@contextmanager
def said_with_what_is_kept(out: Path) -> Iterator[None]:
    """Adds to the message of an error in training what is kept in `out`.

    Raises:
        DivergedError, RuntimeError: in the place of the error, with both sentences.
    """
    try:
        yield
    except DivergedError as error:  # the same settings would lead there again
        raise DivergedError(f"{error}; the metrics are in {out / 'log'}, {_newest_checkpoint(out)}") from error
    except (ValueError, OSError, RuntimeError) as error:
        raise RuntimeError(f"{error}; {what_is_kept(out)}") from error


class Terminated(KeyboardInterrupt):
    """SIGTERM: a scheduler ends a run as Ctrl-C does."""


def run_to_the_end(run: Callable[[], int], out: Path) -> int:
    """Run a command; what ends it early is said on stderr, with what is kept.

    Returns:
        What `run` returns; `WRONG` for bad input or an error, `STOPPED` for a run that stopped by itself, which would
        stop again, `CTRL_C` or `TERMINATED` for one that only has to go on.
    """
    # Of several processes one that waits for the others in C would never come to its handler.
    is_alone = os.environ.get("WORLD_SIZE", "1") == "1" and threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminate) if is_alone else None
    try:
        return run()
    except (ValueError, OSError, RuntimeError) as error:
        print(f"error: {_sentence(error, out)}", file=sys.stderr)
        return STOPPED if isinstance(error, DivergedError) else WRONG
    except KeyboardInterrupt as stop:
        print(f"\nstopped by {name_of(stop)}; {what_is_kept(out)}", file=sys.stderr)
        return code_of(stop)
    finally:
        if is_alone:
            signal.signal(signal.SIGTERM, before)


def _sentence(error: Exception, out: Path) -> str:
    """What a run raised; the words of the system alone, such as that the disk is full, do not say what to do."""
    if isinstance(error, OSError) and error.errno is not None:
        return f"expected to read and write in {out}, got: {error}; {what_is_kept(out)}"
    return str(error)


def _terminate(*signal_and_frame: object) -> None:
    raise Terminated


def name_of(stop: KeyboardInterrupt) -> str:
    return "SIGTERM" if isinstance(stop, Terminated) else "Ctrl-C"


def code_of(stop: KeyboardInterrupt) -> int:
    return TERMINATED if isinstance(stop, Terminated) else CTRL_C
