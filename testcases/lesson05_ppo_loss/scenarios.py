"""An exercise of lesson 5 that is asked while others are missing."""

from testcases.harness.doubles.calls import without


def objective_alone(lesson, ratio, advantages, clip_epsilon):
    """`clipped_objective` where the loss that generalizes it is not written yet."""
    with without(lesson.clipped_objective, "compute_ppo_loss"):
        return lesson.clipped_objective(ratio, advantages, clip_epsilon)
