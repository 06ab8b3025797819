"""Lesson 5: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

import torch

from tutorial.lesson05_ppo_loss import (
    clipped_objective,
    combine_losses,
    compute_kl_penalty_loss,
    compute_ppo_loss,
    compute_value_loss,
    ppo_statistics,
    update_beta,
)

# The checks are given, above the solution; they have to stay there.
POLICY = {"log_probs": [0.0, 0.0], "old_log_probs": [0.0, 0.0], "advantages": [1.0, 2.0]}
VALUES = {"values": [0.0, 0.0], "old_values": [0.0, 0.0], "returns": [1.0, 2.0]}
SCALARS = {name: torch.tensor(1.0) for name in ("policy_loss", "value_loss", "entropy")}
BAD_EPSILON = {"epsilon-0": ({"clip_epsilon": 0.0}, ["clip_epsilon"])}
BAD_TERMS = {
    "old-would-broadcast": ({"old_log_probs": [0.0]}, ["old_log_probs (1,)"]),
    "all-masked": ({"mask": [False, False]}, ["at least one True"]),
    "no-tokens": ({name: torch.zeros(0) for name in POLICY}, ["at least one token"]),
}
BAD_VALUES = {
    "old-would-broadcast": ({"old_values": [0.0]}, ["old_values (1,)"]),
    "all-masked": ({"mask": [False, False]}, ["at least one True"]),
    "no-tokens": ({name: torch.zeros(0) for name in VALUES}, ["at least one token"]),
}
BAD_SCALARS = {
    "policy-loss-not-reduced": ({"policy_loss": [1.0, 2.0]}, ["policy_loss", "(2,)"]),
    "value-coef-below-0": ({"value_coef": -0.1}, ["value_coef"]),
    "entropy-coef-below-0": ({"entropy_coef": -0.1}, ["entropy_coef"]),
}
BAD_NUMBERS = {"beta-below-0": ({"beta": -0.5}, ["beta"]), "target-0": ({"target_kl": 0.0}, ["target_kl"])}

DEFAULTS = [clipped_objective, compute_ppo_loss, compute_value_loss, combine_losses, ppo_statistics]
REFUSALS = {
    clipped_objective: (
        {"ratio": [1.0, 2.0], "advantages": [1.0, 2.0]},
        BAD_EPSILON | {"would-broadcast": ({"advantages": [1.0]}, ["advantages (1,)"])},
    ),
    compute_ppo_loss: (POLICY, BAD_TERMS | BAD_EPSILON),
    compute_value_loss: (VALUES, BAD_VALUES | BAD_EPSILON),
    combine_losses: (SCALARS, BAD_SCALARS),
    ppo_statistics: (POLICY, BAD_TERMS | BAD_EPSILON),
    compute_kl_penalty_loss: ({**POLICY, "beta": 1.0}, BAD_TERMS | {"beta-below-0": ({"beta": -0.1}, ["beta"])}),
    update_beta: ({"beta": 0.5, "kl": 1.0, "target_kl": 1.0}, BAD_NUMBERS),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1)
