"""The folder of a run: a new one, or this run's own to go on in. Nothing in it is ever deleted."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from ppo_by_hand.core.checkpoints import CHECKPOINT_FILE
from ppo_by_hand.core.checks import DivergedError
from ppo_by_hand.core.files import write_json

RUN_FILE, CHECKPOINTS = "run.json", "checkpoints"
FINE, WRONG, STOPPED, CTRL_C = 0, 1, 3, 130
"""Exit codes of a run: for a scheduler. argparse has 2."""


def open_folder(out: Path, run: Mapping[str, Any], resume: bool) -> None:
    """Make the folder of a run, or find the checkpoint in it from which this run goes on.

    Args:
        out: a new or an empty folder; with `resume` the one in which this run has written a checkpoint.
        run: what makes it this run, besides the trainer's settings, which a checkpoint holds; plain data.
        resume: go on.

    Raises:
        ValueError: the folder holds anything else, or cannot be made or written to.
    """
    if not resume:
        new_folder(out)
        write_json(out / RUN_FILE, run)
        return
    if not has_checkpoint(out):
        raise ValueError(
            f"expected a checkpoint in {out} to go on from, got none; start the run in a new folder, without RESUME=1"
        )
    found = json.loads((out / RUN_FILE).read_text("utf-8"))
    for name, value in json.loads(json.dumps(run)).items():  # as JSON gives it back: tuples have become lists
        if value != found.get(name):
            raise ValueError(
                f"expected the run that {out} holds, got {name} {value!r} where it has {found.get(name)!r}; give the "
                "same, or another OUT"
            )


def new_folder(out: Path) -> None:
    """Make a folder for results.

    Raises:
        ValueError: it cannot be made, or something is in it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in out.iterdir())
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise ValueError(
            f"expected OUT to be a folder that can be written, got {out} ({error.strerror}); choose another"
        ) from error
    if names:
        raise ValueError(
            f"expected OUT to be a new or an empty folder, got {out}, which holds {', '.join(names[:4])}; take another"
        )


def has_checkpoint(out: Path) -> bool:
    return any((out / CHECKPOINTS).rglob(CHECKPOINT_FILE))


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save model and tokenizer with `save_pretrained`.

    Raises:
        OSError: it could not be written, say on a full disk.
    """
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise OSError(f"expected room for a model in {folder}, got: {error}") from error


def run_to_the_end(run: Callable[[], int], out: Path) -> int:
    """Run a command; what ends it early is said on stderr, and whether it can go on.

    Returns:
        What `run` returns; `WRONG` for bad input or an error, `STOPPED` for a run that stopped by itself and would stop
        again, `CTRL_C` for one that only has to go on.
    """
    try:
        return run()
    except DivergedError as error:
        said, code = f"error: {error}; the metrics are in {out / 'log'}", STOPPED
    except (ValueError, OSError, RuntimeError) as error:
        said, code = f"error: {error}", WRONG
    except KeyboardInterrupt:
        said, code = "\nstopped by Ctrl-C", CTRL_C
    if code != STOPPED and has_checkpoint(out):
        said += f"; a checkpoint is kept in {out}, and the same command with RESUME=1 (--resume) continues from it"
    print(said, file=sys.stderr)
    return code
