"""Processes that need not load torch and transformers: forks of one in which they are, and which has run nothing."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from testcases.harness.catalog import ROOT

LONGEST = 900
"""Seconds after which a process hangs; a machine at work on much else takes minutes for the corpus."""

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["testcases.grader.tests.preloaded", "testcases.course.kernels"])


class Fork:
    """A process that makes one call, and has its answer as exit status.

    Args:
        said: a folder for what it prints.
        call: a function of a module, by whose name the process finds it.
        folder: where it works, and imports from first.
        environment: variables that it has besides this process's.
    """

    def __init__(
        self, said: Path, call: Callable[..., Any], *given: Any, folder: Path = ROOT, **environment: str
    ) -> None:
        said.mkdir(exist_ok=True)
        self.said, self.name = said, call.__name__
        self.process = FORKED.Process(target=_make, args=(said, folder, {**os.environ, **environment}, call, given))
        self.process.start()

    def ended(self) -> "subprocess.CompletedProcess[str]":
        """What became of it; one that hangs is killed."""
        self.process.join(LONGEST)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        told = [(self.said / name).read_text("utf-8") for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(self.name, self.process.exitcode, *told)


def _make(
    said: Path, folder: Path, environment: Mapping[str, str], call: Callable[..., Any], given: tuple[Any, ...]
) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(said / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.exit(call(*given))
