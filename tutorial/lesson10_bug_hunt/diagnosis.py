"""Part 2: name the fault of a run from its log."""

from __future__ import annotations

FAULTS = (
    "healthy",
    "sampling_mismatch",
    "wrong_reference",
    "ratio_stays_one",
    "entropy_collapse",
    "critic_frozen",
    "length_rewarded",
    "step_too_large",
)
"""healthy: nothing is wrong. sampling_mismatch: the stored log-probabilities are not those of the trained policy.
wrong_reference: the reference is not the model that training began with. ratio_stays_one: the policy learns, and its
ratios are 1 in all minibatches. entropy_collapse: the loss makes the policy certain too soon. critic_frozen: the critic
does not learn. length_rewarded: the score rises with every token that is written. step_too_large: the learning rate is
too large."""


def diagnose(log: dict[str, list[float]]) -> str:
    """Name the fault of a run.

    Args:
        log: one number for each update, under the names first_ratio (mean probability ratio in the first minibatch),
            kl (of the policy from the reference, in nats per response), entropy (nats per token), explained_variance
            (of the critic, before its update), clip_fraction (of all minibatches but the first), length (tokens) and
            truncated (share of responses that did not end by themselves).

    Returns:
        One of FAULTS.
    """
    raise NotImplementedError("lesson10: diagnose")
