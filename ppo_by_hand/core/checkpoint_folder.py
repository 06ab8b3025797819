"""The newest checkpoint of a run, replaced every few updates. No other file is ever removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .checkpoints import CHECKPOINT_FILE
from .checks import DivergedError
from .files import first_line
from .shapes import check_number


class CheckpointFolder:
    """Keeps the newest checkpoint of one run; `save_checkpoint` replaces it in one step, so one is always whole.

    Args:
        directory: for the checkpoint, created where missing.
        every: updates between two checkpoints; the last update is always saved.
    """

    def __init__(self, directory: str | Path, every: int = 5) -> None:
        check_number("every", every, 1)
        self.directory, self.every = Path(directory), every
        self.is_of_another_run = (self.directory / CHECKPOINT_FILE).exists()  # until `load` has taken it

    def load(self, trainer: Any) -> bool:
        """Let a trainer go on from the checkpoint; False if there is none.

        Raises:
            ValueError: as `load_checkpoint`.
        """
        if not (self.directory / CHECKPOINT_FILE).exists():
            return False
        trainer.load_checkpoint(self.directory)
        self.is_of_another_run = False
        return True

    def save(self, trainer: Any) -> None:
        """Save if it is time; made for `on_update` of `PPOTrainer.train`.

        Raises:
            ValueError: the folder came with a checkpoint that was not loaded.
            DivergedError: a weight is NaN or infinite, so the checkpoint would be of no use.
            OSError: it could not be written, for instance on a full disk; the one before is unchanged.
        """
        if self.is_of_another_run:
            raise ValueError(
                f"expected a folder without the checkpoint of another run, got {self.directory}; "
                "CheckpointFolder(...).load(trainer) before train goes on with that one, another folder keeps both"
            )
        if trainer.updates_done % self.every and trainer.updates_done < trainer.config.num_updates:
            return
        if not all(bool(weight.isfinite().all()) for weight in trainer.model.parameters()):
            raise DivergedError(
                f"stopped at update {trainer.updates_done}: a weight is NaN or infinite; lower learning_rate"
            )
        try:
            trainer.save_checkpoint(self.directory)
        except (OSError, RuntimeError) as error:  # torch.save speaks of a full disk as a RuntimeError
            raise OSError(f"expected room for a checkpoint in {self.directory}, got: {first_line(error)}") from error
