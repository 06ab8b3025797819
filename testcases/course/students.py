"""Students to test the suites on: a folder with everything solved, and ways to spoil it."""

import builtins
import dataclasses
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from testcases.harness.catalog import ROOT, SOLUTIONS, lesson_names, read_lesson, suites
from testcases.harness.oracle.mutations import NamedChange, all_stubs, write_files
from tiny_models import presets

LESSON, FILE = "lesson04_gae", "gae.py"
HANGS = 900
"""Seconds after which a process that a check has started is taken to hang: on a busy machine a run takes minutes."""
POCKET = dataclasses.replace(
    presets.PRESETS["tiny"],
    name="pocket",
    demonstrations=1024,
    preference_pairs=256,
    held_out_pairs=16,
    ppo_updates=7,
    ppo_batch_size=8,
    evaluation_responses=16,
)
"""A preset for runs of seconds."""
REGION = re.compile(r" *# region solution\n.*?# endregion\n", re.DOTALL)


LESSONS = [name for name in lesson_names() if suites(name)]


def answer_row(lesson: str, answer: NamedChange, *marks: Any) -> Any:
    """A row of a table of tests, named by lesson, exercise and answer."""
    name = "-".join([read_lesson(lesson).short, answer.exercise, answer.name])
    return pytest.param(lesson, answer, id=name, marks=marks)


def pocket_demo(out: str, called: str) -> int:
    """What a process of its own does: a student's demo on that preset, and into a file what lessons wrote into CALLED.

    Of the suites, those are asked whose lessons may stay unfinished; and the figures show nothing of a student's own.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] == "tutorial"]:
        del sys.modules[name]
    presets.PRESETS["pocket"] = POCKET
    demo, figures, stack = (
        importlib.import_module(f"tutorial.demo.{name}") for name in ("__main__", "figures", "stack")
    )
    figures.draw_figures = lambda run: None
    stack.LEFT_OUT = {number: names for number, names in stack.LEFT_OUT.items() if names}
    code: int = demo.main(["--preset", "pocket", "--out", out])
    Path(called).write_text("\n".join(vars(builtins)["CALLED"]), "utf-8")
    return code


def summary(out: Path) -> dict[str, Any]:
    """The numbers of a run of the demo in this folder."""
    return json.loads((out / "summary.json").read_text("utf-8"))


def solved_folder(tmp_path: Path) -> Path:
    """A student who has solved everything."""
    folder = tmp_path / "tutorial"
    stubs = all_stubs()
    solved = {path: (SOLUTIONS / path).read_text("utf-8") for path in stubs if path.startswith("lesson")}
    write_files(folder, stubs | solved)
    return folder


def course_copy(folder: Path) -> Path:
    """A course whose notebooks may be run and saved, with everything solved; what is only read is linked."""
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    for name in ("solutions", "testcases", "tiny_models", "ppo_by_hand", "book"):
        (folder / name).symlink_to(ROOT / name)
    solved_folder(folder)
    return folder


def own_course(folder: Path, lessons: Sequence[str] = ()) -> Path:
    """A course of one's own with untouched stubs, and with these lessons alone if some are named: what its commands
    keep is kept in it."""

    def skipped(_: str, names: list[str]) -> set[str]:
        others = {name for name in names if lessons and re.match(r"lesson\d\d", name) and name[:8] not in lessons}
        return others | {"__pycache__", "course", "benchmarks"}

    for name in ("solutions", "testcases", "tiny_models", "ppo_by_hand", "tutorial"):
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copyfile(ROOT / name, folder / name)
    return folder


# One import of torch serves several runs of pytest, each in a fork with the terminal.
RUNS = """
import json, os, signal, sys, torch, pytest
from pathlib import Path
import testcases.harness.execution.executor, testcases.harness.suite.asserts
torch.set_num_threads(1)
for arguments, texts in json.loads(sys.argv[1]):
    for path, text in texts.items():
        Path(path).unlink() if text is None else Path(path).write_text(text, "utf-8")
    if (child := os.fork()) == 0:
        os.dup2(1, 2)
        status = pytest.main(["-p", "no:randomly", *arguments])
        sys.stdout.flush()
        os._exit(status)
    print("END", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def around_pytest() -> dict[str, str]:
    """The environment of a pytest of its own, without what this one was given or says of itself in it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}


def run(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One module alone, such as pytest, in a process of its own."""
    command, options = [sys.executable, "-m", module, *arguments], {"cwd": folder, "env": around_pytest()}
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, **options)


def own_runs(
    course: Path, *asked: Sequence[str], texts: Sequence[Mapping[str, str | None]] = ()
) -> list[tuple[int, str]]:
    """Exit status and output of pytest with each of these lists of arguments; before each, its texts are written, and
    its files without one removed."""
    steps = [(arguments, texts[place] if texts else {}) for place, arguments in enumerate(asked)]
    command = [sys.executable, "-c", RUNS, json.dumps(steps)]
    options = {"cwd": course, "env": around_pytest(), "stdin": subprocess.DEVNULL, "timeout": HANGS}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    parts = re.split(r"^END (-?\d+)\n", done.stdout + done.stderr, flags=re.MULTILINE)
    assert len(parts) == 2 * len(asked) + 1, done.stdout + done.stderr
    return [(int(status), said) for said, status in zip(parts[::2], parts[1::2], strict=False)]


def replace_body(folder: Path, body: str) -> None:
    """Put another body into td_errors; the others call it through the reference's own code."""
    path = folder / LESSON / FILE
    path.write_text(with_body(path.read_text("utf-8"), body), "utf-8")


def with_body(source: str, body: str) -> str:
    start = source.index("def td_errors(")
    indented = "\n".join(f"    {line}" for line in body.splitlines()) + "\n"
    return source[:start] + REGION.sub(lambda _: indented, source[start:], count=1)


def independent(folder: Path) -> None:
    """Let the other exercises not use td_errors, so that they show nothing of its fault."""
    path = folder / LESSON / FILE
    deltas = "rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]"
    path.write_text(
        path.read_text("utf-8").replace("deltas = td_errors(rewards, values, dones, gamma)", f"deltas = {deltas}"),
        "utf-8",
    )
