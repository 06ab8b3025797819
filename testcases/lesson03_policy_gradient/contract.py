"""Lesson 3: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go

# The checks are given, above the solution; they have to stay there.
TO_GO = {"rewards": [[1.0, 2.0]], "mask": [[True, True]], "gamma": 0.5}
LOSS = {"log_probs": [[-1.0, -2.0]], "weights": [[1.0, 2.0]], "mask": [[True, True]]}

DEFAULTS = [rewards_to_go]
REFUSALS = {
    rewards_to_go: (
        TO_GO,
        {
            "mask-would-broadcast": ({"mask": [[True], [True]]}, ["mask (2, 1)"]),
            "all-masked": ({"mask": [[False, False]]}, ["at least one True"]),
            "gamma-above-1": ({"gamma": 1.5}, ["gamma"]),
        },
    ),
    leave_one_out_baseline: (
        {},
        {
            "no-other-response": ({"scores": [[1.0], [2.0]]}, ["K"]),
            "no-prompts": ({"scores": [1.0, 2.0]}, ["scores (2,)"]),
        },
    ),
    reinforce_loss: (
        LOSS,
        {
            "weights-would-broadcast": ({"weights": [[1.0], [2.0]]}, ["weights (2, 1)"]),
            "mask-would-broadcast": ({"mask": [[True]]}, ["mask (1, 1)"]),
            "all-masked": ({"mask": [[False, False]]}, ["at least one True"]),
        },
    ),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1)
