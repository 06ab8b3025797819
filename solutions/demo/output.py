"""The folder of a run: what it may remove, and models written whole.

A run's folder holds a manifest (`core.written`). Another run is refused there, unless it goes on with the first one or
is told to take its place; then just the files go that the manifest names, and only as they were written.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from ppo_by_hand.core.files import remove_empty, unused, write_whole
from ppo_by_hand.core.written import MANIFEST, Written

from .journal import FINISHED, FOLDER, RUNS

MODELS = {
    "sft": "the SFT model",
    "reward_model": "the reward model",
    "policy": "the policy",
    "best": "the best policy by its held-out score",
    "no_kl_policy": "the policy without KL penalty",
}
"""Folder -> what lies in it when it is finished."""
RESULT_FOLDERS = (*MODELS, "log", "samples", FOLDER, FINISHED)
RESULT_FILES = ("summary.json", "training_curves.png", "overoptimization.png", "response.png")
WRITES = (
    *RESULT_FILES,
    "log/**/metrics.jsonl",
    "log/**/events.out.tfevents.*",
    "log/evaluations.jsonl",
    "samples/update-*.md",
    *(f"{folder}/journal.json" for folder in (FOLDER, FINISHED)),
    *(f"{folder}/{run}/update-*/trainer.pt" for folder in (FOLDER, FINISHED) for run in RUNS),
)
"""The files of a run besides its models, whose names are recorded when they are saved."""
MODEL_FILES = "config.json generation_config.json *.safetensors *.safetensors.index.json *token*.json"
"""What a run of an older version wrote into the folder of a model."""
KEPT_RUNS = 3
"""Earlier demos that are kept at the default place."""
HELD: dict[str, int] = {}
"""The folders that this process runs in, by their real paths, each opened; the lock on it ends with the process."""


def prepare_output(out: Path, resume: bool = False, inputs: Sequence[Path] = (), overwrite: bool = False) -> str:
    """Make the folder ready: a new one, or that of an earlier run to go on with or to take the place of.

    Args:
        out: the folder.
        resume: keep everything, for the run in it to go on.
        inputs: what the run will read; none of it may lie in a folder of results.
        overwrite: remove what the run in it has written. Whatever else lies in its folders is moved to
            `out/kept-<time>`.

    Returns:
        What was moved where, as a sentence, or "".

    Raises:
        ValueError: the folder cannot be made or written to, another process runs in it, it holds a run and not one of
            `resume` and `overwrite` is given, or holds something else.
    """
    if resume and overwrite:
        raise ValueError("expected --resume to go on with a run or --overwrite to start again, got both; leave one out")
    _check_place(out, inputs)
    with made(out):
        half = f".{MANIFEST}.ppo-by-hand-unfinished"  # all that a run leaves which was killed right at its beginning
        if any(one.name != half for one in out.iterdir()):
            _check_run(out, resume, overwrite)
        said = _make_place(out) if overwrite else ""
        if not resume:
            Written(out).record([])
    return said


@contextmanager
def made(out: Path) -> Iterator[None]:
    """A folder of one's own for a run, held from now on, and what is done in it at the start.

    Raises:
        ValueError: it is the working directory, cannot be made or written to, or another process runs in it.
    """
    if os.path.realpath(out) == os.path.realpath("."):
        raise ValueError("expected OUT to be a folder of the run's own, got the working directory; give OUT=runs/name")
    try:
        out.mkdir(parents=True, exist_ok=True)
        hold(out)
        tempfile.TemporaryFile(dir=out).close()
        yield
    except OSError as error:
        raise ValueError(
            f"expected OUT to be a folder that can be written, got {out} ({error.strerror}); choose another"
        ) from error


def hold(out: Path) -> None:
    """Let no other process run in this folder until `release`, or the end of this one.

    Raises:
        ValueError: another process does.
        OSError: it cannot be opened.
    """
    release(out)
    opened = HELD[os.path.realpath(out)] = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(
            f"expected OUT to be a folder in which nothing runs, got {out}, where another process does; wait until it "
            "has ended, or choose another"
        ) from error
    except OSError:  # a file system without locks
        return


def release(out: Path) -> None:
    if (opened := HELD.pop(os.path.realpath(out), None)) is not None:
        os.close(opened)


def _check_place(out: Path, inputs: Sequence[Path]) -> None:
    for folder in (out / name for name in RESULT_FOLDERS):
        if folder.is_symlink() or folder.is_file():
            raise ValueError(f"expected {folder} to be a folder of an earlier run, got a file or a link; move it away")
        for one in inputs:
            if Path(os.path.realpath(one)).is_relative_to(os.path.realpath(folder)):
                raise ValueError(f"expected results to go elsewhere than what is read, got {one} in {out}; change OUT")


def _check_run(out: Path, resume: bool, overwrite: bool) -> None:
    """
    Raises:
        ValueError: what is in the folder is no run, one without a manifest, or one that nobody wants to touch.
    """
    if Written(out).exists():
        if resume or overwrite:
            return
        state = "an unfinished run" if (out / FOLDER).is_dir() else "a run"
        raise ValueError(
            f"expected OUT to be new, got {out} with {state} in it; --resume (RESUME=1) goes on with it, --overwrite "
            "(OVERWRITE=1) puts a new one in its place, and another OUT keeps both"
        )
    if any((out / name).is_file() for name in ("summary.json", f"{FOLDER}/journal.json", f"{FINISHED}/journal.json")):
        raise ValueError(
            f"expected a run with its list of files, got {out} of an older version, which has none; take it over: "
            f"python -m ppo_by_hand adopt {out}"
        )
    if resume:
        return  # the journal says that there is nothing to go on with
    names = ", ".join(sorted(path.name for path in out.iterdir())[:4])
    raise ValueError(f"expected OUT to be a new or an empty folder, got {out}, which holds {names}; choose another")


def _make_place(out: Path) -> str:
    """Remove what the manifest names, and move aside what else lies where a run writes."""
    Written(out).remove()
    places = [out / name for name in (*RESULT_FOLDERS, *RESULT_FILES)]
    return Written(out).make_way(file for place in places for file in (place, *place.rglob("*")))


@contextmanager
def results(out: Path, *files: Path) -> Iterator[None]:
    """The run writes these files in the block: what is not its own makes way first, and they are recorded."""
    if (written := Written(out)).exists():
        if said := written.make_way(files):
            print(said)
        yield
        written.record(file for file in files if file.is_file())
    else:
        yield


def seal(out: Path) -> None:
    """Record the run's files as they are now; models are recorded when they are saved."""
    written = Written(out)
    if not written.exists():
        return
    files = [file for pattern in WRITES for file in out.glob(pattern) if file.is_file() and not file.is_symlink()]
    models = [out / name for name in written.known if name.partition("/")[0] in MODELS and (out / name).is_file()]
    written.record({*files, *(file for file in models if not file.is_symlink())})


@contextmanager
def sealed(out: Path) -> Iterator[None]:
    """Records the run's files at the end of the block, also where it raises; then another process may run in `out`."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the disk may be full: what is said is the error of the run
            seal(out)
        raise
    else:
        seal(out)
    finally:
        release(out)


def adopt(out: Path) -> list[Path]:
    """Give the folder of a run of an older version its manifest; the files that it names from now on.

    Raises:
        ValueError: it has one, or no run is in it.
    """
    if Written(out).exists():
        raise ValueError(f"expected a run of an older version, got {out}, which has its list of files: {MANIFEST}")
    models = [file for name in MODELS for pattern in MODEL_FILES.split() for file in (out / name).glob(pattern)]
    found = [file for pattern in WRITES for file in out.glob(pattern)]
    files = sorted({file for file in (*found, *models) if file.is_file() and not file.is_symlink()})
    if not files:
        raise ValueError(f"expected the folder of a run, got {out} without any of its files")
    Written(out).record(files)
    return files


def make_room(out: Path, say: Callable[[str], None]) -> None:
    """Move the demo that is there beside itself, to `<out>-<time>`, and keep the last `KEPT_RUNS` of those."""
    if not out.is_dir() or not any(out.iterdir()):
        return
    hold(out)
    release(out)
    target = unused(out.with_name(f"{out.name}-{time.strftime('%Y%m%d-%H%M%S')}"))
    out.rename(target)
    say(f"the earlier run is now in {target}; to go on with an interrupted one: RESUME=1 OUT={target}")
    for old in sorted(out.parent.glob(f"{out.name}-[0-9]*-[0-9]*"))[:-KEPT_RUNS]:
        if Written(old).exists():
            Written(old).remove()
            Written(old).file.unlink()
            remove_empty([old])


def save_model(model: Any, tokenizer: Any, directory: Path) -> None:
    """`save_pretrained` of both, in one piece: the folder appears when it is whole, in the place of an older one.

    Raises:
        OSError: it could not be written, say on a full disk.
    """
    try:
        with ExitStack() as recorded, write_whole(directory) as unfinished:
            model.save_pretrained(unfinished)
            tokenizer.save_pretrained(unfinished)
            names = [file.relative_to(unfinished) for file in unfinished.rglob("*") if file.is_file()]
            recorded.enter_context(results(directory.parent, *(directory / name for name in names)))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise OSError(f"expected room for a model in {directory}, got: {error}") from error


def finished(out: Path) -> list[str]:
    """A sentence for each model that a run has finished in its folder."""
    return [f"{what} in {out / name}" for name, what in MODELS.items() if (out / name).is_dir()]
