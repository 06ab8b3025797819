"""Lesson 2: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

from testcases.harness.suite.asserts import scenario
from tutorial.lesson02_reward_model import (
    RewardModel,
    calibrate,
    last_token_index,
    pairwise_loss,
    preference_accuracy,
    ranking_loss,
    token_pairwise_loss,
)

# The checks are given, above the solution; they have to stay there.
ROW = {
    "input_ids": [[1, 2, 3]],
    "attention_mask": [[True, True, True]],
    "table": [[0.0], [1.0], [2.0], [3.0]],
    "places": [[0.0], [10.0], [20.0]],
    "weight": [[2.0]],
    "bias": [1.0],
}
SCORES = {"chosen": [1.0, 2.0], "rejected": [0.0, 1.0]}
TOKENS = {
    "chosen_scores": [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
    "rejected_scores": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "chosen_ids": [[1, 2, 9], [1, 2, 4]],
    "rejected_ids": [[1, 3, 9], [1, 2, 3]],
    "pad_token_id": 9,
}

REFUSALS = {
    last_token_index: (
        {},
        {
            "a-row-of-padding": ({"attention_mask": [[True, True], [False, False]]}, ["real token"]),
            "one-dimension": ({"attention_mask": [True, False]}, ["attention_mask (2,)"]),
        },
    ),
    scenario("score_rows", of=RewardModel.forward): (
        ROW,
        {"a-shorter-mask": ({"attention_mask": [[True, True]]}, ["attention_mask (1, 2)"])},
    ),
    pairwise_loss: (
        {**SCORES, "margin": [0.5, 0.5]},
        {
            "rejected-would-broadcast": ({"rejected": [1.0]}, ["rejected (1,)"]),
            "margin-would-broadcast": ({"margin": [1.0]}, ["margin (1,)"]),
        },
    ),
    ranking_loss: (
        {},
        {
            "nothing-to-compare": ({"scores": [[1.0], [2.0]]}, ["K"]),
            "one-dimension": ({"scores": [1.0, 2.0]}, ["scores (2,)"]),
        },
    ),
    token_pairwise_loss: (
        TOKENS,
        {
            "an-identical-pair": ({"rejected_ids": [[1, 2, 9], [1, 2, 3]]}, ["identical pair"]),
            "left-padded": ({"chosen_ids": [[9, 1, 2], [1, 2, 4]]}, ["chosen_ids", "right-padded"]),
            "scores-too-short": ({"chosen_scores": [[1.0, 1.0], [1.0, 1.0]]}, ["chosen_scores (2, 2)"]),
            "would-broadcast": ({"rejected_scores": [[1.0, 1.0, 1.0]]}, ["rejected_scores (1, 3)"]),
        },
    ),
    preference_accuracy: (SCORES, {"would-broadcast": ({"chosen": [1.0]}, ["chosen (1,)"])}),
}
AGREEMENT = dict.fromkeys([*REFUSALS, calibrate], 1)
