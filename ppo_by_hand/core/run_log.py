"""Where the metrics of a run go: TensorBoard, a file with one JSON object per line, and the live checks."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from accelerate import PartialState
from tqdm import tqdm

from .checks import STOPS, DivergedError, Metrics, faults
from .files import unused
from .progress import say_check

METRICS_FILE = "metrics.jsonl"


class RunLog:
    """Writes the metrics of each update; a context that closes its files, also after Ctrl-C.

    In `log_dir` it writes TensorBoard's files and `metrics.jsonl`, a line for each update with its number from 1 and
    every metric; NaN and infinity become null, since JSON has neither. A file of this name that does not begin with
    this run's lines is renamed first. Each check speaks once in a run, on stderr. Of several processes only the main
    one writes.

    Args:
        log_dir: created where missing; None writes no files, and checks all the same.
        history: the metrics of the updates before, when a run is resumed: the file begins with them.
    """

    def __init__(self, log_dir: str | Path | None, history: Sequence[Metrics] = ()) -> None:
        self.log_dir = log_dir if PartialState().is_main_process else None
        self.history = list(history)
        self.failed: dict[str, str] = {}
        for update in range(1, len(history) + 1):
            self._new_faults(update)
        self.open_files = ExitStack()
        self.lines: IO[str] | None = None
        self.tensorboard: Any = None

    def __enter__(self) -> RunLog:
        if self.log_dir is not None:
            from torch.utils.tensorboard import SummaryWriter

            self.lines = self.open_files.enter_context(_open(Path(self.log_dir, METRICS_FILE), self.history))
            # purge_step hides the points that a killed run wrote after its last checkpoint.
            writer = SummaryWriter(self.log_dir, purge_step=len(self.history) + 1)
            self.tensorboard = self.open_files.enter_context(writer)
        return self

    def __exit__(self, *error: object) -> None:
        self.open_files.close()

    def write(self, update: int, metrics: Metrics) -> None:
        """Record an update, whose number is 1 for the first of the run, and check it.

        Raises:
            DivergedError: nothing more can be learned; these metrics are recorded.
        """
        if self.lines is not None:
            print(_line(update, metrics), end="", file=self.lines, flush=True)
            for name, value in metrics.items():
                self.tensorboard.add_scalar(name, value, update)
        self.history.append(metrics)
        new = self._new_faults(len(self.history))
        for sentence in new.values():
            say_check(sentence)
        for sentence in (new[name] for name in STOPS if name in new):
            first = next(iter(self.failed.values()))
            more = "" if first == sentence else f"; the first check that failed: {first}"
            raise DivergedError(f"stopped at {sentence}{more}")

    def _new_faults(self, updates: int) -> dict[str, str]:
        """Sentences, by name, of the checks that fail first at this update."""
        found = faults(self.history[:updates])
        new = {name: f"update {updates}: {sentence}" for name, sentence in found if name not in self.failed}
        self.failed |= new
        return new


def _open(file: Path, before: Sequence[Metrics]) -> IO[str]:
    """The file with the lines of the updates before, to go on; what is there of another run is renamed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(_line(number, metrics) for number, metrics in enumerate(before, start=1))
    if file.is_file() and not (before and file.read_text("utf-8", errors="replace").startswith(lines)):
        aside = file.rename(unused(file))
        tqdm.write(f"the metrics of an earlier run are now in {aside}", file=sys.stderr)
    opened = file.open("w", encoding="utf-8")
    opened.write(lines)
    return opened


def _line(update: int, metrics: Metrics) -> str:
    finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    return json.dumps({"update": update, **finite}) + "\n"
