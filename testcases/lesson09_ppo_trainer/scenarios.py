"""Live objects for lesson 9: trainers over tables, not neural networks, so that each number is worked out by hand."""

from .scenarios_checkpoints import (
    interrupted_save_of,
    loaded_of,
    parts_in_training_mode_after,
    refused_load_of,
    resumed_of,
    saved_of,
)
from .scenarios_rollout import responses_of, rewards_of, wrapped_responses_of
from .scenarios_run import run_of
from .scenarios_updates import epochs_of, loss_of, real_step_of, real_updates_of, steps_of, update_of, wrapped_loss_of

__all__ = [
    "epochs_of",
    "interrupted_save_of",
    "loaded_of",
    "loss_of",
    "parts_in_training_mode_after",
    "real_step_of",
    "real_updates_of",
    "refused_load_of",
    "responses_of",
    "resumed_of",
    "rewards_of",
    "run_of",
    "saved_of",
    "steps_of",
    "update_of",
    "wrapped_loss_of",
    "wrapped_responses_of",
]
