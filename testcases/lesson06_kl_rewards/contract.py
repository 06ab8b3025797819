"""Lesson 6: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

import math

from testcases.harness.suite.asserts import scenario
from tutorial.lesson06_kl_rewards import (
    AdaptiveKLController,
    compute_rewards,
    estimate_kl,
    nonnegative_kl,
    penalize_missing_stop,
)

# The checks are given, above the solution; they have to stay there.
PAIR = {"log_probs": [-1.0, -2.0], "ref_log_probs": [-1.0, -2.0]}
BAD_PAIR = {"would-broadcast": ({"ref_log_probs": [-1.0]}, ["ref_log_probs (1,)"])}
BATCH = {
    "scores": [1.0, 2.0],
    "log_probs": [[-1.0, -1.0], [-1.0, -1.0]],
    "ref_log_probs": [[-1.0, -1.0], [-1.0, -1.0]],
    "mask": [[True, True], [True, False]],
}
RESPONSES = {"scores": [1.0, 2.0], "responses": [[5, 2], [5, 6]], "stop_token_ids": (2,), "penalty": 1.0}
ONE_UPDATE = {"kl_coef": 0.1, "target_kl": 6.0, "horizon": 100, "seen": (6.0,), "n_steps": (4,)}

DEFAULTS = [estimate_kl, compute_rewards]
REFUSALS = {
    nonnegative_kl: (PAIR, BAD_PAIR),
    estimate_kl: (PAIR, {**BAD_PAIR, "unknown-estimator": ({"estimator": "k4"}, ["k1, k2, k3", "k4"])}),
    compute_rewards: (
        BATCH,
        {
            "one-score-for-two-rows": ({"scores": [1.0]}, ["scores (1,)"]),
            "a-row-without-a-token": ({"mask": [[True, True], [False, False]]}, ["row 1"]),
            "coefficient-below-0": ({"kl_coef": -0.1}, ["kl_coef"]),
            "clip-of-0": ({"clip_score": 0.0}, ["clip_score"]),
            "unknown-estimator-of-a-kl-that-costs-nothing": ({"estimator": "k4", "kl_coef": 0.0}, ["k4"]),
        },
    ),
    penalize_missing_stop: (
        RESPONSES,
        {
            "penalty-below-0": ({"penalty": -1.0}, ["penalty"]),
            "one-score-for-two-rows": ({"scores": [1.0]}, ["scores (1,)"]),
            "no-batch": ({"responses": [5, 2]}, ["responses (2,)"]),
        },
    ),
    scenario("coefficients", of=AdaptiveKLController.update): (
        ONE_UPDATE,
        {"nan": ({"seen": (math.nan,)}, ["current"]), "fewer-than-no-responses": ({"n_steps": (-1,)}, ["n_steps"])},
    ),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1)
